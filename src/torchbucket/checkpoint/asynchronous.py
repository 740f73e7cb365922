"""Saving in the background: the object is copied once, and the training goes on while the copy is sent."""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np
import torch

from torchbucket.checkpoint.archive import can_lay_out, lay_out
from torchbucket.checkpoint.background import SaveFuture, background
from torchbucket.checkpoint.location import store_and_key
from torchbucket.checkpoint.saving import PICKLE_PROTOCOL, send
from torchbucket.checkpoint.snapshot import Snapshot, take_snapshot
from torchbucket.config import StoreConfig
from torchbucket.public import public, public_in
from torchbucket.store.protocol import ObjectInfo, Store, address_in
from torchbucket.store.starting import start_threads
from torchbucket.uri import Address

__all__ = ["save_async", "save_async_to"]


@public
def save_async(
    obj: Any, uri: Address, *, config: StoreConfig | None = None, multipart: bool = True, verify: bool = False
) -> SaveFuture:
    """Copy an object into memory and return; the copy is saved in the background, as ``torchbucket.save`` does.

    There is at most one copy in the process: a second call waits until the first one's is sent. Its memory is kept for
    the next save, since fresh memory takes longer than the copy itself. Tensors on a GPU are copied to the host.

    An interpreter that exits waits for the save. A failure is raised by the future; where nobody asks that, by the next
    save, which is not done then, and at the interpreter's exit.

    Args:
        obj: anything that ``torch.save`` takes.
        uri: the object's address, such as ``s3://bucket/run-1/step-100.pt``.
        config: how to reach the bucket; None means ``StoreConfig()``.
        multipart: see ``save``.
        verify: see ``save``.

    Returns:
        A future of the object's description, with ``staged_s`` and ``durable_s``: when the copy was made, and when the
        object was there.

    Raises:
        ConfigError: a wrong address or setting.
        StoreError: an earlier save in the background failed, and nobody has asked its future.
    """
    store, key = store_and_key(uri, config)
    return save_async_to(store, key, obj, multipart=multipart, verify=verify)


@public_in("torchbucket.checkpoint")
def save_async_to(store: Store, key: str, obj: Any, *, multipart: bool = True, verify: bool = False) -> SaveFuture:
    """Save an object under a key of a store in the background; see ``save_async``."""
    began_s = time.monotonic()
    future = SaveFuture(address_in(store, key))
    try:
        background.take(future)
        pieces = _snapshots.copy_of(obj)
        start_threads(store)
    except BaseException:
        background.drop(future)
        raise
    future.staged_s = time.monotonic() - began_s

    def work() -> ObjectInfo:
        info = send(store, key, pieces(), multipart=multipart, verify=verify)
        future.durable_s = time.monotonic() - began_s
        return info

    background.start(future, work)
    return future


class _Snapshots:
    """The memory of the one copy that there is at a time, kept from one save to the next."""

    def __init__(self) -> None:
        self._memory = _new_memory(0)

    def copy_of(self, obj: Any) -> Callable[[], list[memoryview]]:
        """What the object's checkpoint consists of, in memory that the next call uses again.

        It may be laid out only once that is asked for: the longest part, for many tensors, is pickling them as torch
        does.
        """
        snapshot = take_snapshot(obj) if can_lay_out() else None
        if snapshot is not None:
            snapshot.copy_to(self._of_size(snapshot.size_bytes))
            return partial(_pieces_of, snapshot)
        archive = lay_out(obj, PICKLE_PROTOCOL)
        if archive is None:
            self._of_size(0)
            content = _saved_by_torch(obj)
        else:
            content = self._of_size(archive.size_bytes)
            archive.copy_to(content)
        return lambda: [content]

    def _of_size(self, length: int) -> memoryview:
        if not length <= len(self._memory) <= 2 * length:
            self._memory = _new_memory(0)  # freed before there is more
            self._memory = _new_memory(length)
        return self._memory[:length]


def _pieces_of(snapshot: Snapshot) -> list[memoryview]:
    obj = snapshot.restore()
    archive = lay_out(obj, PICKLE_PROTOCOL)
    return archive.views() if archive is not None else [_saved_by_torch(obj)]


def _saved_by_torch(obj: Any) -> memoryview:
    file = io.BytesIO()
    torch.save(obj, file)
    return file.getbuffer()


def _new_memory(length: int) -> memoryview:
    return np.empty(length, np.uint8).data  # which, unlike a bytearray, is not filled


_snapshots: Final = _Snapshots()
