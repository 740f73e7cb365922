"""The futures of a store: they survive a fork, and refuse to be waited for by the thread that must settle them."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from typing import Any, TypeVar

from torchbucket.errors import StoreError, TransportError
from torchbucket.store import forking

__all__ = [
    "StoreFuture",
    "TransportThread",
    "completed",
    "on_transport_thread",
    "refuse_in_pool",
    "refuse_to_wait",
    "submit_to",
]

T = TypeVar("T")


class TransportThread(threading.Thread):
    """A thread that settles futures of stores, so that nothing it runs may wait for one."""

    def __init__(self, target: Callable[[], None], name: str) -> None:
        # A daemon: an interpreter that exits does not wait for the network.
        super().__init__(target=target, name=name, daemon=True)
        self.process = forking.forks_before


def on_transport_thread() -> bool:
    """Whether the calling thread is one that gets requests on, so that it must not wait for any."""
    thread = threading.current_thread()
    # In a child that a callback forked, the thread has no transport to serve any more.
    return isinstance(thread, TransportThread) and thread.process == forking.forks_before


def refuse_to_wait(for_what: str) -> None:
    """Raise ``StoreError`` where this thread must not wait for a store, since it is the one that gets it on.

    Args:
        for_what: what would be waited for, for the message.
    """
    if on_transport_thread():
        raise _waits_for_itself(for_what, "a transport's own thread")


def _waits_for_itself(for_what: str, whose: str) -> StoreError:
    return StoreError(
        f"{for_what}: {whose} cannot wait, since it is what brings the result. This was called from a done-callback, "
        "an observer or a destructor that runs there; hand the work to another thread, for example an executor's"
    )


class StoreFuture(Future[T]):
    """A future that fails, and does not wait for ever, in a child forked before it was done."""

    def __init__(self) -> None:
        self._process = forking.forks_before
        super().__init__()

    @property
    def _condition(self) -> threading.Condition:
        # Every method of futures, and every function that waits for some, begins by taking it.
        if self._process != forking.forks_before:
            self._settle_in_child()
        return self._own_condition

    @_condition.setter
    def _condition(self, condition: threading.Condition) -> None:
        self._own_condition = condition

    def result(self, timeout: float | None = None) -> T:
        """Wait for the result.

        Raises:
            TransportError: in a forked child, where it had not arrived by the time of the fork.
            StoreError: the calling thread is the one that would bring it.
        """
        if not self.done():
            self._refuse_to_wait("result")
        try:
            return super().result(timeout)
        finally:
            del self  # An error keeps the frames that it passes, which must not keep it in turn.

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait for the failure; see ``result``."""
        if not self.done():
            self._refuse_to_wait("exception")
        try:
            return super().exception(timeout)
        finally:
            del self

    def _refuse_to_wait(self, for_what: str) -> None:
        refuse_to_wait(for_what)

    def _settle_in_child(self) -> None:
        self._process = forking.forks_before
        # The parent's lock may have been taken at the moment of the fork.
        self._own_condition = threading.Condition()
        self._waiters: list[Any] = []  # the parent's threads, as are its callbacks' objects
        if not self.done():
            self._done_callbacks: list[Callable[[Future[T]], object]] = []
            self.set_exception(
                TransportError(
                    "this request was begun before the process forked and only the parent gets its answer; "
                    "make the request again in the child"
                )
            )


class _PoolFuture(StoreFuture[T]):
    """The future of what a pool's thread does, for which no thread of that pool may wait: all of them could."""

    def __init__(self, pool: Executor) -> None:
        super().__init__()
        self._pool = weakref.ref(pool)  # it ends when its owner lets go of it

    def _refuse_to_wait(self, for_what: str) -> None:
        super()._refuse_to_wait(for_what)
        pool = self._pool()
        if pool is not None:
            refuse_in_pool(for_what, pool)


_working = threading.local()


def refuse_in_pool(for_what: str, pool: Executor) -> None:
    """Raise ``StoreError`` where this is one of the pool's threads, which must not wait for what the pool does."""
    working = getattr(_working, "pool", None)
    if working is not None and working() is pool:
        raise _waits_for_itself(for_what, "a store's own thread")


def completed(work: Callable[[], T]) -> StoreFuture[T]:
    """Do the work now and return it as a future that is done."""
    future: StoreFuture[T] = StoreFuture()
    _fulfil(future, work)
    return future


def submit_to(pool: Executor, work: Callable[[], T]) -> StoreFuture[T]:
    """Have a pool's thread do the work."""
    future: _PoolFuture[T] = _PoolFuture(pool)
    pool.submit(_fulfil_in_pool, weakref.ref(pool), future, work).add_done_callback(partial(_follow, future))
    return future


def _fulfil_in_pool(pool: weakref.ref[Executor], future: StoreFuture[T], work: Callable[[], T]) -> None:
    _working.pool = pool
    _fulfil(future, work)


def _fulfil(future: StoreFuture[T], work: Callable[[], T]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = work()
    except BaseException as error:  # noqa: BLE001  # handed to the caller by the future
        future.set_exception(error)
    else:
        future.set_result(result)


def _follow(future: StoreFuture[T], in_pool: Future[None]) -> None:
    if in_pool.cancelled():  # The pool was shut down.
        future.cancel()
