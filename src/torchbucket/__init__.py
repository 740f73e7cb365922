"""PyTorch data sets straight from object storage, addressed by URI.

    from torchbucket import MapDataset, StoreConfig

    dataset = MapDataset.from_prefix("s3://bucket/train/", config=StoreConfig(region="eu-west-1"))

Importing the package loads nothing heavy; torch is loaded when a data set's class is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from torchbucket.config import RetryConfig, StoreConfig
from torchbucket.errors import (
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

if TYPE_CHECKING:
    from torchbucket.datasets.iterable import IterableDataset
    from torchbucket.datasets.map import MapDataset
    from torchbucket.datasets.resume import merge_states
    from torchbucket.datasets.sampler import ShardedSampler
    from torchbucket.files.reader import ObjectReader

__all__ = [
    "ChecksumError",
    "ConfigError",
    "IterableDataset",
    "MapDataset",
    "NotFoundError",
    "ObjectChangedError",
    "ObjectReader",
    "PermissionDeniedError",
    "PreconditionFailedError",
    "RetryConfig",
    "ShardedSampler",
    "StoreConfig",
    "StoreError",
    "ThrottledError",
    "TorchbucketError",
    "TransportError",
    "TruncatedError",
    "UnsupportedError",
    "merge_states",
]

_LOADED_WHEN_USED = {
    "IterableDataset": "torchbucket.datasets.iterable",
    "MapDataset": "torchbucket.datasets.map",
    "ObjectReader": "torchbucket.files.reader",
    "ShardedSampler": "torchbucket.datasets.sampler",
    "merge_states": "torchbucket.datasets.resume",
}


def __getattr__(name: str) -> object:
    if name not in _LOADED_WHEN_USED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_LOADED_WHEN_USED[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
