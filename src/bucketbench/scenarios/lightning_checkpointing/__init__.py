"""The scenario of Lightning's checkpoints: how fast a trainer saves and loads them by a client's ``CheckpointIO``."""
