"""The scenario of PyTorch checkpoints: how fast a client saves and loads a model's state."""
