"""The clients of distributed checkpoints."""
