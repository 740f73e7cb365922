"""Saving an object as a checkpoint of PyTorch."""

from __future__ import annotations

from typing import Any

import torch

from torchbucket.checkpoint.location import store_and_key
from torchbucket.config import StoreConfig
from torchbucket.public import public
from torchbucket.store.protocol import ObjectInfo, Store
from torchbucket.uri import Address

__all__ = ["save", "save_to"]


@public
def save(obj: Any, uri: Address, *, config: StoreConfig | None = None) -> ObjectInfo:
    """Save an object, as ``torch.save`` does, to an address; it appears whole when this returns, or not at all.

    Args:
        obj: anything that ``torch.save`` takes.
        uri: the object's address, such as ``s3://bucket/run-1/step-100.pt``.
        config: how to reach the bucket; None means ``StoreConfig()``.

    Raises:
        ConfigError: a wrong address or setting.
        StoreError: the write failed; what the address held before is untouched.
    """
    store, key = store_and_key(uri, config)
    return save_to(store, key, obj)


def save_to(store: Store, key: str, obj: Any) -> ObjectInfo:
    """Save an object under a key of a store; see ``save``."""
    with store.open_writer(key) as writer:
        torch.save(obj, writer)
    return writer.info
