"""The scenario of distributed checkpoints of a state that every rank has, as with DDP."""
