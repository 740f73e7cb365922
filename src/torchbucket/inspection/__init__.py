"""What is in a checkpoint, told without loading it."""

from __future__ import annotations

from torchbucket.inspection.contents import CheckpointContents, StoredTensor
from torchbucket.inspection.formats import inspect_checkpoint

__all__ = ["CheckpointContents", "StoredTensor", "inspect_checkpoint"]
