"""What the scenarios that save and load checkpoints share: models by name and size, their states, and figures."""
