"""The scenario of distributed checkpoints of a state of which every rank has rows, as with FSDP."""
