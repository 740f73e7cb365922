"""torchbucket: ``BucketStorageWriter`` and ``BucketStorageReader``."""

from __future__ import annotations

from typing import Any, Literal

import torch.distributed as dist

from bucketbench.clients.protocol import Target
from bucketbench.clients.torchbucket import checked_settings, store_config
from torchbucket import StoreConfig
from torchbucket.dcp import AsyncSaver, BucketStorageReader, BucketStorageWriter, is_complete
from torchbucket.store import open_store
from torchbucket.uri import ObjectURI

__all__ = ["Torchbucket", "remove_all"]


class Torchbucket:
    """``BucketStorageWriter`` and ``BucketStorageReader``.

    Args:
        thread_count: files that each rank writes at once.
        read_once: whether replicas are read by one rank and handed on.
        metadata_once: whether the metadata is.
        async_checkpointer: ``thread`` or ``process`` for ``AsyncSaver``; None for ``dcp.save``.
        settings: fields of ``StoreConfig`` that the target does not give.
    """

    def __init__(
        self,
        *,
        thread_count: int = 1,
        read_once: bool = False,
        metadata_once: bool = False,
        async_checkpointer: Literal["thread", "process"] | None = None,
        **settings: Any,
    ) -> None:
        self.async_checkpointer = async_checkpointer
        self._thread_count = thread_count
        self._once: dict[str, Any] = {"read_once": read_once, "metadata_once": metadata_once}
        self._settings = checked_settings(settings)

    def storage(self, target: Target) -> _Storage:
        """The checkpoints below the target's prefix."""
        return _Storage(target, self._settings, thread_count=self._thread_count, once=self._once)


class _Storage:
    def __init__(self, target: Target, settings: dict[str, Any], *, thread_count: int, once: dict[str, Any]) -> None:
        self._uri = target.uri
        self._config = store_config(target, **settings)
        self._thread_count = thread_count
        self._once = once
        self._group: dist.ProcessGroup | None = None

    def writer(self, name: str) -> BucketStorageWriter:
        return BucketStorageWriter(self._uri + name, config=self._config, thread_count=self._thread_count)

    def reader(self, name: str) -> BucketStorageReader:
        return BucketStorageReader(self._uri + name, config=self._config, process_group=self._group, **self._once)

    def saver(self, *, process: bool, group: dist.ProcessGroup | None) -> AsyncSaver:
        return AsyncSaver(process=process, process_group=group)

    def use_group(self, group: dist.ProcessGroup | None) -> None:
        self._group = group

    def is_saved(self, name: str) -> bool:
        return is_complete(self._uri + name, config=self._config)

    def remove(self, name: str) -> None:
        remove_all(f"{self._uri}{name}/", self._config)

    def close(self) -> None:
        """The store is shared in the process, which ends it."""


def remove_all(prefix: str, config: StoreConfig) -> None:
    """Remove every object whose address begins so."""
    location = ObjectURI.parse(prefix)
    store = open_store(location, config)
    for info in store.list(location.key):
        store.delete(info.key)
