"""The scenario of sharded Lightning trainings: how fast strategies save and load checkpoints, all ranks together."""
