"""The scenario of distributed checkpoints of uniquely named tensors, each of one rank."""
