"""A store that counts and times what is asked of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import TypeVar

from torchbucket.public import public_in
from torchbucket.store.forking import renew_after_fork
from torchbucket.store.protocol import Store
from torchbucket.store.wrappers.forwarding import ForwardingStore, read_bytes

__all__ = ["MeteredStore", "OperationUsage", "StoreUsage"]

T = TypeVar("T")


@public_in("torchbucket.store.wrappers")
@dataclass(frozen=True, kw_only=True, slots=True)
class OperationUsage:
    """What the calls of one operation came to.

    Args:
        calls: those that are over; a listing is one, however many requests it makes.
        errors: those that failed.
        cancelled: those whose future was cancelled.
        read_bytes: what successful reads brought.
        written_bytes: what successful writes took.
        time_s: from call to result, summed over calls, which may overlap; of a listing, the time waited for its items.
    """

    calls: int = 0
    errors: int = 0
    cancelled: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    time_s: float = 0.0

    def __add__(self, other: OperationUsage) -> OperationUsage:
        return OperationUsage(
            **{field.name: getattr(self, field.name) + getattr(other, field.name) for field in fields(self)}
        )


@public_in("torchbucket.store.wrappers")
@dataclass(frozen=True, kw_only=True, slots=True)
class StoreUsage:
    """What was asked of a store up to one moment, by the name of the protocol's method.

    A writer's calls are ``writer.write``, ``writer.write_range`` (which takes no bytes from the caller),
    ``writer.close`` and ``writer.abort``; ``read`` counts as ``submit_read``.
    """

    operations: Mapping[str, OperationUsage]

    @property
    def total(self) -> OperationUsage:
        """The sum over all operations."""
        return sum(self.operations.values(), OperationUsage())


@public_in("torchbucket.store.wrappers")
class MeteredStore(ForwardingStore):
    """Counts and times every call. Counts begin at zero where the store is unpickled, and in a forked child.

    Requests over the network, of which a call may make several, are told by the observer of ``open_store``.

    Args:
        inner: the store that does the work.
    """

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.renew()
        renew_after_fork(self)

    def renew(self) -> None:
        """Begin at zero in a forked child, so that parent and children can be added up."""
        self._lock = threading.Lock()
        self._operations: dict[str, OperationUsage] = {}

    def usage(self) -> StoreUsage:
        """What was asked so far; a later call does not change it."""
        with self._lock:
            return StoreUsage(operations=MappingProxyType(dict(self._operations)))

    def _call(self, operation: str, call: Callable[[], T], *, sent_bytes: int = 0, position: int = 0) -> T:
        usage = OperationUsage(calls=int(position == 0), written_bytes=sent_bytes)
        began_s = time.monotonic()
        try:
            return super()._call(operation, call, sent_bytes=sent_bytes, position=position)
        except BaseException:
            usage = replace(usage, errors=1, written_bytes=0)
            raise
        finally:
            self._count(operation, replace(usage, time_s=time.monotonic() - began_s))

    def _submit(self, operation: str, begin: Callable[[], Future[T]], *, wanted_bytes: int = 0) -> Future[T]:
        began_s = time.monotonic()
        try:
            future = super()._submit(operation, begin, wanted_bytes=wanted_bytes)
        except BaseException:
            self._count(operation, OperationUsage(calls=1, errors=1))
            raise

        def count(done: Future[T]) -> None:
            usage = OperationUsage(calls=1, time_s=time.monotonic() - began_s)
            if done.cancelled() or isinstance(done.exception(), CancelledError):
                usage = replace(usage, cancelled=1)
            elif done.exception() is not None:
                usage = replace(usage, errors=1)
            else:
                usage = replace(usage, read_bytes=read_bytes(done.result(), wanted_bytes))
            self._count(operation, usage)

        future.add_done_callback(count)
        return future

    def _count(self, operation: str, usage: OperationUsage) -> None:
        with self._lock:
            before = self._operations.get(operation)
            self._operations[operation] = usage if before is None else before + usage
