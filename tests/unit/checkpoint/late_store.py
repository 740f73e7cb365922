"""A store in memory whose reads into memory are done as late as they can be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from torchbucket.store import ObjectInfo
from torchbucket.store.protocol import Target
from torchbucket.store.wrappers import ForwardingStore

__all__ = ["LateStore"]


class _LateFuture(Future[ObjectInfo]):
    """Does its work when somebody waits for it."""

    def __init__(self, work: Callable[[], ObjectInfo]) -> None:
        super().__init__()
        self._work = work

    def result(self, timeout: float | None = None) -> ObjectInfo:
        if not self.done():
            self.set_result(self._work())
        return super().result(timeout)


class LateStore(ForwardingStore):
    """Leaves rubbish in all memory that is to be filled until the moment that its future's result is wanted."""

    def submit_read_into(self, key: str, targets: Sequence[Target], **options: Any) -> Future[ObjectInfo]:
        for _, memory in targets:
            memory[:] = b"\x5a" * len(memory)
        return _LateFuture(lambda: self.inner.submit_read_into(key, targets, **options).result())
