"""PyTorch data sets and checkpoints straight from and to object storage, addressed by URI.

    import torchbucket

    config = torchbucket.StoreConfig(region="eu-west-1")
    dataset = torchbucket.MapDataset.from_prefix("s3://bucket/train/", config=config)
    torchbucket.save(model.state_dict(), "s3://bucket/run-1/step-100.pt", config=config)

Importing the package loads nothing heavy; torch is loaded when what needs it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchbucket.config import RetryConfig, StoreConfig
from torchbucket.errors import (
    ArchiveError,
    CheckpointError,
    ChecksumError,
    ConfigError,
    NotFoundError,
    ObjectChangedError,
    PermissionDeniedError,
    PreconditionFailedError,
    StoreError,
    ThrottledError,
    TorchbucketError,
    TransportError,
    TruncatedError,
    UnsupportedError,
)
from torchbucket.lazy_names import loaded_when_used

if TYPE_CHECKING:
    from torchbucket.checkpoint.asynchronous import save_async
    from torchbucket.checkpoint.background import SaveFuture
    from torchbucket.checkpoint.checkpoint import Checkpoint
    from torchbucket.checkpoint.loading import load
    from torchbucket.checkpoint.saving import save
    from torchbucket.datasets.compose.options import Compose
    from torchbucket.datasets.iterable import IterableDataset
    from torchbucket.datasets.map import MapDataset
    from torchbucket.datasets.merging import merge_states
    from torchbucket.datasets.prefix_stream import PrefixStream
    from torchbucket.datasets.read_ahead_sampler import ReadAheadBatchSampler
    from torchbucket.datasets.sampler import ShardedSampler
    from torchbucket.datasets.tar.dataset import TarDataset
    from torchbucket.datasets.tar.names import expand_braces
    from torchbucket.datasets.tar.sample import TarSample
    from torchbucket.datasets.temporaries.sweep import SweptTemporaries, sweep_temporaries
    from torchbucket.files.reader import ObjectReader
    from torchbucket.store import ObjectData, ObjectInfo, Read, Store, open_store

__all__ = [
    "ArchiveError",
    "Checkpoint",
    "CheckpointError",
    "ChecksumError",
    "Compose",
    "ConfigError",
    "IterableDataset",
    "MapDataset",
    "NotFoundError",
    "ObjectChangedError",
    "ObjectData",
    "ObjectInfo",
    "ObjectReader",
    "PermissionDeniedError",
    "PreconditionFailedError",
    "PrefixStream",
    "Read",
    "ReadAheadBatchSampler",
    "RetryConfig",
    "SaveFuture",
    "ShardedSampler",
    "Store",
    "StoreConfig",
    "StoreError",
    "SweptTemporaries",
    "TarDataset",
    "TarSample",
    "ThrottledError",
    "TorchbucketError",
    "TransportError",
    "TruncatedError",
    "UnsupportedError",
    "expand_braces",
    "load",
    "merge_states",
    "open_store",
    "save",
    "save_async",
    "sweep_temporaries",
]

__getattr__, __dir__ = loaded_when_used(
    __name__,
    {
        "Checkpoint": "torchbucket.checkpoint.checkpoint",
        "Compose": "torchbucket.datasets.compose.options",
        "IterableDataset": "torchbucket.datasets.iterable",
        "MapDataset": "torchbucket.datasets.map",
        "ObjectData": "torchbucket.store",
        "ObjectInfo": "torchbucket.store",
        "ObjectReader": "torchbucket.files.reader",
        "PrefixStream": "torchbucket.datasets.prefix_stream",
        "Read": "torchbucket.store",
        "ReadAheadBatchSampler": "torchbucket.datasets.read_ahead_sampler",
        "SaveFuture": "torchbucket.checkpoint.background",
        "ShardedSampler": "torchbucket.datasets.sampler",
        "Store": "torchbucket.store",
        "TarDataset": "torchbucket.datasets.tar.dataset",
        "TarSample": "torchbucket.datasets.tar.sample",
        "expand_braces": "torchbucket.datasets.tar.names",
        "load": "torchbucket.checkpoint.loading",
        "merge_states": "torchbucket.datasets.merging",
        "open_store": "torchbucket.store",
        "save": "torchbucket.checkpoint.saving",
        "save_async": "torchbucket.checkpoint.asynchronous",
        "SweptTemporaries": "torchbucket.datasets.temporaries.sweep",
        "sweep_temporaries": "torchbucket.datasets.temporaries.sweep",
    },
)
