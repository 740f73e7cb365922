"""A store that lets only so many operations be in flight."""

# ruff: noqa: ARG002  # what a base class asks for is not always of use
from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from torchbucket.errors import ConfigError
from torchbucket.public import public_in
from torchbucket.store.forking import renew_after_fork
from torchbucket.store.protocol import Store
from torchbucket.store.store_future import refuse_to_wait
from torchbucket.store.wrappers.forwarding import ForwardingStore
from torchbucket.store.wrappers.relay import Relay

__all__ = ["LimitedStore", "OperationLimit"]

T = TypeVar("T")


@public_in("torchbucket.store.wrappers")
class OperationLimit:
    """So many operations at once, first come first served, over all that share it in one process.

    Safe for use by several threads. A forked child and a copy by pickle begin with none in flight.

    Args:
        most: operations in flight, at least 1.

    Raises:
        ConfigError: ``most`` is no whole number of at least 1.
    """

    def __init__(self, most: int) -> None:
        if not isinstance(most, int) or isinstance(most, bool) or most < 1:
            raise ConfigError(f"OperationLimit.most must be a whole number of at least 1; got {most!r}")
        self.most = most
        self.renew()
        renew_after_fork(self)

    def renew(self) -> None:
        """Begin with nothing in flight; for a forked child, whose parent's operations are not its own."""
        self._lock = threading.Lock()
        self._line: deque[Callable[[], None]] = deque()
        self._in_flight = 0
        self._serving = False

    @property
    def in_flight(self) -> int:
        """Operations that have begun and are not over."""
        return self._in_flight

    def submit(self, start: Callable[[], None]) -> None:
        """Have ``start`` called, on some thread, as soon as an operation may begin; ``release`` must follow."""
        with self._lock:
            self._line.append(start)
        self._serve()

    def acquire(self) -> None:
        """Wait until an operation may begin; ``release`` must follow."""
        granted = threading.Event()
        self.submit(granted.set)
        try:
            if not granted.is_set():
                refuse_to_wait("an operation beyond the limit")
            granted.wait()
        except BaseException:
            with self._lock:
                waiting = granted.set in self._line
                if waiting:
                    self._line.remove(granted.set)
            if not waiting:
                self.release()
            raise

    def release(self) -> None:
        """End an operation."""
        with self._lock:
            self._in_flight -= 1
        self._serve()

    def _serve(self) -> None:
        """Start who may start, in a loop: an operation that is over at once must not nest the next one in itself."""
        with self._lock:
            if self._serving:
                return
            self._serving = True
        while True:
            with self._lock:
                if not self._line or self._in_flight >= self.most:
                    self._serving = False
                    return
                start = self._line.popleft()
                self._in_flight += 1
            try:
                start()
            except BaseException:
                with self._lock:
                    self._serving = False
                raise

    def __reduce__(self) -> tuple[object, ...]:
        return OperationLimit, (self.most,)


@public_in("torchbucket.store.wrappers")
class LimitedStore(ForwardingStore):
    """Lets at most so many operations be in flight: reads, pages, and the calls that wait for their result.

    A ``submit_read`` beyond the limit returns its future at once and is begun in its turn; every other call waits. Of a
    listing, the wait for an item is an operation, and of a streamed write each call; the requests that a store makes
    ahead or behind of those calls are bounded by its ``concurrency``.

    Args:
        inner: the store that does the work.
        limit: how many, or a limit that other stores share.
    """

    def __init__(self, inner: Store, limit: OperationLimit | int) -> None:
        super().__init__(inner)
        self._limit = limit if isinstance(limit, OperationLimit) else OperationLimit(limit)

    @property
    def limit(self) -> OperationLimit:
        """The limit, to be shared with other stores."""
        return self._limit

    def _call(self, operation: str, call: Callable[[], T], *, sent_bytes: int = 0, position: int = 0) -> T:
        self._limit.acquire()
        try:
            return super()._call(operation, call, sent_bytes=sent_bytes, position=position)
        finally:
            self._limit.release()

    def _submit(self, operation: str, begin: Callable[[], Future[T]], *, wanted_bytes: int = 0) -> Future[T]:
        relay = Relay(begin, lambda _done: self._limit.release())
        self._limit.submit(relay.start)
        return relay

    def __reduce__(self) -> tuple[object, ...]:
        return LimitedStore, (self._inner, self._limit)
