"""Distributed checkpoints as safetensors files: saved by all ranks, consolidated into whole tensors, read by any."""
