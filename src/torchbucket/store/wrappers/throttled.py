"""A store that is slowed down to so many bytes and operations a second."""

# ruff: noqa: ARG002  # what a base class asks for is not always of use
from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Final, TypeVar

from torchbucket.errors import ConfigError
from torchbucket.public import public_in
from torchbucket.store.forking import renew_after_fork
from torchbucket.store.protocol import Store
from torchbucket.store.wrappers.delays import call_at
from torchbucket.store.wrappers.forwarding import ForwardingStore, read_bytes
from torchbucket.store.wrappers.relay import Relay

__all__ = ["RateLimit", "ThrottledStore"]

T = TypeVar("T")

# A listing counts as one operation for so many names. Source: the most that S3 and Cloud Storage return in a page by
# default, hence one request.
_PAGE: Final = 1000


@public_in("torchbucket.store.wrappers")
class RateLimit:
    """Operations and bytes a second, over all that share it in one process. Safe for use by several threads.

    Operations are booked in the order in which they are asked for, each at the earliest moment that keeps both rates:
    evenly spaced, with no burst after a silence. What turns out to be more bytes than was booked delays those after it.

    Args:
        operations_per_s: None for no cap.
        bytes_per_s: read and written together; None for no cap.
        clock: the monotonic clock, for tests.

    Raises:
        ConfigError: a cap is no finite number above 0.
    """

    def __init__(
        self,
        *,
        operations_per_s: float | None = None,
        bytes_per_s: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        for name, value in (("operations_per_s", operations_per_s), ("bytes_per_s", bytes_per_s)):
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if value is not None and not (number and math.isfinite(value) and value > 0):
                raise ConfigError(f"RateLimit.{name} must be None or a number above 0; got {value!r}")
        self.operations_per_s = operations_per_s
        self.bytes_per_s = bytes_per_s
        self._clock = clock
        self._operation_s = self._byte_s = clock()
        self.renew()
        renew_after_fork(self)

    def renew(self) -> None:
        """Give a forked child a lock of its own; it goes on from where the parent was."""
        self._lock = threading.Lock()

    def book_s(self, size_bytes: int = 0, *, operations: int = 1) -> float:
        """Book an operation of so many bytes, or with 0 a piece of one; return the seconds until it may begin."""
        with self._lock:
            now_s = self._clock()
            due_s = max(now_s, self._operation_s, self._byte_s)
            if self.operations_per_s is not None:
                self._operation_s = due_s + operations / self.operations_per_s
            if self.bytes_per_s is not None:
                self._byte_s = due_s + size_bytes / self.bytes_per_s
            return due_s - now_s

    def correct(self, size_bytes: int) -> None:
        """Add bytes that were not booked, or with a negative number take back those that did not come."""
        if self.bytes_per_s is not None:
            with self._lock:
                self._byte_s = max(self._byte_s, self._clock()) + size_bytes / self.bytes_per_s

    def __reduce__(self) -> tuple[object, ...]:
        return partial(RateLimit, operations_per_s=self.operations_per_s, bytes_per_s=self.bytes_per_s), ()


@public_in("torchbucket.store.wrappers")
class ThrottledStore(ForwardingStore):
    """Keeps a store to so many operations and bytes a second.

    A ``submit_read`` that comes too early returns its future at once and is begun later; every other call waits. Each
    process has the rate for itself. For a cap on what the network carries, whatever the calls, see
    ``StoreConfig.bandwidth_bytes_per_s``.

    Args:
        inner: the store that does the work.
        limit: the rates; several stores may share them.
    """

    def __init__(self, inner: Store, limit: RateLimit) -> None:
        super().__init__(inner)
        self._limit = limit

    @property
    def limit(self) -> RateLimit:
        """The rates, to be shared with other stores."""
        return self._limit

    def _call(self, operation: str, call: Callable[[], T], *, sent_bytes: int = 0, position: int = 0) -> T:
        # A streamed write is an operation when it is opened and when it is closed, however small its pieces are.
        wait_s = 0.0
        if position % _PAGE == 0:
            wait_s = self._limit.book_s(sent_bytes, operations=0 if operation == "writer.write" else 1)
        if wait_s > 0:
            time.sleep(wait_s)
        return super()._call(operation, call, sent_bytes=sent_bytes, position=position)

    def _submit(self, operation: str, begin: Callable[[], Future[T]], *, wanted_bytes: int = 0) -> Future[T]:
        def settle(done: Future[T] | None) -> None:
            came = 0
            if done is not None and not done.cancelled() and done.exception() is None:
                came = read_bytes(done.result(), wanted_bytes)
            if came != wanted_bytes:
                self._limit.correct(came - wanted_bytes)

        relay = Relay(begin, settle)
        wait_s = self._limit.book_s(wanted_bytes)
        if wait_s > 0:
            call_at(time.monotonic() + wait_s, relay.start)
        else:
            relay.start()
        return relay

    def __reduce__(self) -> tuple[object, ...]:
        return ThrottledStore, (self._inner, self._limit)
