"""Loading a checkpoint of PyTorch."""

from __future__ import annotations

from typing import Any

import torch

from torchbucket.checkpoint.location import store_and_key
from torchbucket.config import StoreConfig
from torchbucket.files.reader import ObjectReader
from torchbucket.public import public
from torchbucket.store.protocol import Store
from torchbucket.uri import Address

__all__ = ["load", "load_from"]


@public
def load(
    uri: Address, *, map_location: Any = None, weights_only: bool = True, config: StoreConfig | None = None
) -> Any:
    """Load what ``torch.save`` has written, from an address.

    Args:
        uri: the object's address, such as ``s3://bucket/run-1/step-100.pt``.
        map_location: where tensors go, as ``torch.load`` takes it.
        weights_only: refuse to unpickle anything but tensors and plain values, as ``torch.load`` does; False runs
            whatever code the file names, so only for files that you trust.
        config: how to reach the bucket; None means ``StoreConfig()``.

    Raises:
        ConfigError: a wrong address or setting.
        StoreError: the read failed.
    """
    store, key = store_and_key(uri, config)
    return load_from(store, key, map_location=map_location, weights_only=weights_only)


def load_from(store: Store, key: str, *, map_location: Any = None, weights_only: bool = True) -> Any:
    """Load the checkpoint under a key of a store; see ``load``."""
    with ObjectReader.lazy(store, key, uri=f"{store.uri.removesuffix('/')}/{key}") as reader:
        return torch.load(reader, map_location=map_location, weights_only=weights_only)
