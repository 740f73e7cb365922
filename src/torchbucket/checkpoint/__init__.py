"""PyTorch checkpoints in a bucket: saved whole or not at all, sent from and read into the tensors' own memory."""

from __future__ import annotations

from torchbucket.checkpoint.asynchronous import save_async, save_async_to
from torchbucket.checkpoint.background import SaveFuture
from torchbucket.checkpoint.checkpoint import Checkpoint
from torchbucket.checkpoint.loading import load, load_from
from torchbucket.checkpoint.saving import save, save_to

__all__ = ["Checkpoint", "SaveFuture", "load", "load_from", "save", "save_async", "save_async_to", "save_to"]
