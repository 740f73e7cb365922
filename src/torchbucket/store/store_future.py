"""The futures of a store: they survive a fork, and refuse to be waited for by the threads that must settle them.

Only their own methods can refuse: ``concurrent.futures.wait`` and ``as_completed`` ask nobody, and wait for ever there.
"""

from __future__ import annotations

import _thread
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from concurrent.futures._base import PENDING
from functools import partial
from typing import Any, TypeVar

from torchbucket.errors import StoreError, TransportError
from torchbucket.store import forking
from torchbucket.store.daemon_thread import DaemonThread

__all__ = [
    "StoreFuture",
    "TransportThread",
    "become_store_thread",
    "completed",
    "on_store_thread",
    "refuse_to_wait",
    "result_of",
    "submit_to",
]

T = TypeVar("T")

_this_thread = threading.local()


def become_store_thread() -> None:
    """Mark the calling thread as one that settles futures of stores, so that nothing it runs may wait for one."""
    _this_thread.process = forking.forks_before


def on_store_thread() -> bool:
    """Whether the calling thread is one that gets a store's calls on, so that it must not wait for any."""
    # In a child that a callback forked, the thread has no store to serve any more.
    return getattr(_this_thread, "process", None) == forking.forks_before


class TransportThread(DaemonThread):
    """A thread that settles futures of stores."""

    def __init__(self, target: Callable[[], None], name: str) -> None:
        super().__init__(target, name=name)
        self.process = forking.forks_before

    def run(self) -> None:
        """Do the work, marked as a store's."""
        become_store_thread()
        super().run()


def refuse_to_wait(for_what: str) -> None:
    """Raise ``StoreError`` where waiting for a store would never end: no other thread runs, or this one serves stores.

    Args:
        for_what: what would be waited for, for the message.
    """
    if sys.is_finalizing():
        raise StoreError(
            f"{for_what}: the interpreter is being torn down and runs no other thread, so that no store gets on any "
            "more. This was called from a destructor; do it before the program ends, or in an atexit handler"
        )
    if on_store_thread():
        raise StoreError(
            f"{for_what}: a store's own thread cannot wait, since it is what brings the result. This was called from a "
            "done-callback, an observer or a destructor that runs there; hand the work to another thread, for example "
            "an executor's"
        )


class _Lock(_thread.RLock):  # type: ignore[misc]  # said to be final, which no Python makes it
    """Stands for the condition of a future for which nobody waits."""

    def notify_all(self) -> None:
        """Nobody is there."""


class StoreFuture(Future[T]):
    """A future that fails, and does not wait for ever, in a child forked before it was done.

    It has a condition only once somebody waits, since that is half of all that a read has the collector visit.
    """

    def __init__(self) -> None:
        self._process = forking.forks_before
        self._own_condition: _Lock | threading.Condition = _Lock()
        # What the base's constructor does besides making a condition.
        self._state = PENDING
        self._result: T | None = None
        self._exception: BaseException | None = None
        self._waiters: list[Any] = []
        self._done_callbacks: list[Callable[[Future[T]], object]] = []

    @property
    def _condition(self) -> _Lock | threading.Condition:  # type: ignore[override]  # as much of one as is needed
        # Every method of futures, and every function that waits for some, begins by taking it.
        if self._process != forking.forks_before:
            self._settle_in_child()
        return self._own_condition

    def result(self, timeout: float | None = None) -> T:
        """Wait for the result.

        Raises:
            TransportError: in a forked child, where it had not arrived by the time of the fork.
            StoreError: the calling thread is the one that would bring it.
        """
        self._expect_to_wait("result")
        try:
            return super().result(timeout)
        finally:
            del self  # An error keeps the frames that it passes, which must not keep it in turn.

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait for the failure; see ``result``."""
        self._expect_to_wait("exception")
        try:
            return super().exception(timeout)
        finally:
            del self

    def _expect_to_wait(self, for_what: str) -> None:
        if self.done():
            return
        refuse_to_wait(for_what)
        with self._condition:
            if isinstance(self._own_condition, _Lock):
                self._own_condition = threading.Condition(self._own_condition)

    def _settle_in_child(self) -> None:
        self._process = forking.forks_before
        # The parent's lock may have been taken at the moment of the fork.
        self._own_condition = threading.Condition()
        self._waiters = []  # the parent's threads, as are its callbacks' objects
        if not self.done():
            self._done_callbacks = []
            self.set_exception(
                TransportError(
                    "this request was begun before the process forked and only the parent gets its answer; "
                    "make the request again in the child"
                )
            )


def result_of(future: Future[T]) -> T:
    """Wait for what was begun for this caller alone; where it fails, or the wait is interrupted, give it up."""
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise
    finally:
        del future  # An error keeps the frames that it passes, which must not keep it in turn.


def completed(work: Callable[[], T]) -> StoreFuture[T]:
    """Do the work now and return it as a future that is done."""
    future: StoreFuture[T] = StoreFuture()
    _fulfil(future, work)
    try:
        return future
    finally:
        del future  # An error keeps the frames that it passes, which must not keep it in turn.


def submit_to(pool: Executor, work: Callable[[], T]) -> StoreFuture[T]:
    """Have a pool's thread do the work."""
    future: StoreFuture[T] = StoreFuture()
    pool.submit(_fulfil, future, work).add_done_callback(partial(_follow, future))
    return future


def _fulfil(future: StoreFuture[T], work: Callable[[], T]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = work()
    except BaseException as error:  # noqa: BLE001  # handed to the caller by the future
        future.set_exception(error)
    else:
        future.set_result(result)
    finally:
        del future


def _follow(future: StoreFuture[T], in_pool: Future[None]) -> None:
    if in_pool.cancelled():  # The pool was shut down.
        future.cancel()
