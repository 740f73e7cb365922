"""Distributed checkpoints in buckets, for ``torch.distributed.checkpoint``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchbucket.lazy_names import loaded_when_used

if TYPE_CHECKING:
    from torchbucket.dcp.async_saving import AsyncSaver
    from torchbucket.dcp.dataset_state import DatasetState
    from torchbucket.dcp.huggingface.consolidation import consolidate
    from torchbucket.dcp.huggingface.reader import BucketHuggingFaceReader
    from torchbucket.dcp.huggingface.writer import BucketHuggingFaceWriter
    from torchbucket.dcp.lifecycle import StoredCheckpoint, checkpoints, is_complete, latest, prune, verify
    from torchbucket.dcp.prefixes import BinaryPrefixes, FilePrefixes, HexPrefixes, RoundRobinPrefixes
    from torchbucket.dcp.reader import BucketStorageReader
    from torchbucket.dcp.staging import HostStager
    from torchbucket.dcp.writer import BucketStorageWriter

__all__ = [
    "AsyncSaver",
    "BinaryPrefixes",
    "BucketHuggingFaceReader",
    "BucketHuggingFaceWriter",
    "BucketStorageReader",
    "BucketStorageWriter",
    "DatasetState",
    "FilePrefixes",
    "HexPrefixes",
    "HostStager",
    "RoundRobinPrefixes",
    "StoredCheckpoint",
    "checkpoints",
    "consolidate",
    "is_complete",
    "latest",
    "prune",
    "verify",
]

# Names of files can be made without torch, which takes seconds to load.
__getattr__, __dir__ = loaded_when_used(
    __name__,
    {
        "AsyncSaver": "torchbucket.dcp.async_saving",
        "BinaryPrefixes": "torchbucket.dcp.prefixes",
        "BucketHuggingFaceReader": "torchbucket.dcp.huggingface.reader",
        "BucketHuggingFaceWriter": "torchbucket.dcp.huggingface.writer",
        "BucketStorageReader": "torchbucket.dcp.reader",
        "BucketStorageWriter": "torchbucket.dcp.writer",
        "DatasetState": "torchbucket.dcp.dataset_state",
        "FilePrefixes": "torchbucket.dcp.prefixes",
        "HexPrefixes": "torchbucket.dcp.prefixes",
        "HostStager": "torchbucket.dcp.staging",
        "RoundRobinPrefixes": "torchbucket.dcp.prefixes",
        "StoredCheckpoint": "torchbucket.dcp.lifecycle",
        "checkpoints": "torchbucket.dcp.lifecycle",
        "consolidate": "torchbucket.dcp.huggingface.consolidation",
        "is_complete": "torchbucket.dcp.lifecycle",
        "latest": "torchbucket.dcp.lifecycle",
        "prune": "torchbucket.dcp.lifecycle",
        "verify": "torchbucket.dcp.lifecycle",
    },
)
