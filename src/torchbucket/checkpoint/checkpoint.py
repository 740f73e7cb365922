"""Checkpoints below one address, as files and as whole objects."""

from __future__ import annotations

import pickle
from typing import Any

from torchbucket.checkpoint.asynchronous import save_async_to
from torchbucket.checkpoint.background import SaveFuture
from torchbucket.checkpoint.loading import load_from
from torchbucket.checkpoint.location import key_below
from torchbucket.checkpoint.saving import PICKLE_PROTOCOL, save_to
from torchbucket.config import StoreConfig, check_config
from torchbucket.files.reader import ObjectReader
from torchbucket.public import public
from torchbucket.store.protocol import ObjectInfo, ObjectWriter, Store
from torchbucket.store.shared import shared_store
from torchbucket.uri import Address, ObjectURI

__all__ = ["Checkpoint"]


@public
class Checkpoint:
    """Reads and writes checkpoints below an address. Nothing is sent before it is used.

        checkpoint = Checkpoint("s3://bucket/run-1", config=StoreConfig(region="eu-west-1"))
        with checkpoint.writer("step-100.pt") as file:
            torch.save(model.state_dict(), file)

    A key is a path below the address: no part of it may be empty, ``.`` or ``..``. Safe for use by several threads and
    after a fork; pickled, it is address and settings.

    Args:
        base_uri: what the keys follow, with or without a slash: ``s3://bucket``, ``gs://bucket/run-1``,
            ``file:///directory`` or the path of a directory.
        config: how to reach the bucket; None means ``StoreConfig()``.

    Raises:
        ConfigError: a wrong address or setting.
    """

    def __init__(self, base_uri: Address, config: StoreConfig | None = None) -> None:
        check_config(config)
        self._base = ObjectURI.parse(base_uri)
        self._config = config
        self._store = shared_store(self._base, config)

    @property
    def base_uri(self) -> str:
        """The address that keys follow."""
        return str(self._base)

    @property
    def store(self) -> Store:
        """The bucket's store, shared with all that use it with the same settings."""
        return self._store

    def uri(self, key: str) -> str:
        """The full address of a checkpoint."""
        return str(ObjectURI(scheme=self._base.scheme, bucket=self._base.bucket, key=key_below(self._base, key)))

    def writer(self, key: str, *, size_hint: int | None = None) -> ObjectWriter:
        """Open an object for writing, as a binary file: it appears whole by ``close``, or never.

        Leaving a ``with`` block by an exception publishes nothing.

        Args:
            key: its path below the base.
            size_hint: its size in bytes, as far as you know it; see ``Store.open_writer``.
        """
        return self._store.open_writer(key_below(self._base, key), size_hint=size_hint)

    def reader(self, key: str) -> ObjectReader:
        """Open an object for reading, as a binary file; nothing is fetched before the first read.

        Args:
            key: its path below the base.
        """
        return ObjectReader.lazy(self._store, key_below(self._base, key), uri=self.uri(key))

    def save(
        self,
        obj: Any,
        key: str,
        *,
        pickle_module: Any = pickle,
        pickle_protocol: int = PICKLE_PROTOCOL,
        multipart: bool = True,
        verify: bool = False,
    ) -> ObjectInfo:
        """Save an object; see :func:`torchbucket.save`."""
        return save_to(
            self._store,
            key_below(self._base, key),
            obj,
            pickle_module=pickle_module,
            pickle_protocol=pickle_protocol,
            multipart=multipart,
            verify=verify,
        )

    def save_async(self, obj: Any, key: str, *, multipart: bool = True, verify: bool = False) -> SaveFuture:
        """Save an object in the background; see :func:`torchbucket.save_async`."""
        return save_async_to(self._store, key_below(self._base, key), obj, multipart=multipart, verify=verify)

    def load(self, key: str, *, map_location: Any = None, weights_only: bool = True) -> Any:
        """Load an object; see :func:`torchbucket.load`."""
        return load_from(self._store, key_below(self._base, key), map_location=map_location, weights_only=weights_only)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._base, self._config)

    def __repr__(self) -> str:
        return f"Checkpoint({self.base_uri!r})"
