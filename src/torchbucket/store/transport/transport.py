"""The transport: one thread drives every connection of a store.

Callers hand over operations from any thread and get futures; the thread signs, sends, receives, judges and retries.
Evidence for one loop over a thread a connection: ``docs/decisions/0001-transport-engine.md``.
"""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections.abc import Hashable, Iterable
from concurrent.futures import wait
from typing import Any, Final, TypeVar

from torchbucket.config import StoreConfig
from torchbucket.store.forking import renew_after_fork
from torchbucket.store.store_future import refuse_to_wait
from torchbucket.store.transport.curl_engine import CurlEngine
from torchbucket.store.transport.loop import Loop
from torchbucket.store.transport.operation import Operation
from torchbucket.store.transport.request_record import Observer
from torchbucket.store.transport.retry_queue import Contact

__all__ = ["Transport", "close_all"]

T = TypeVar("T")

# A cut takes one turn of the loop; the bound only keeps an interrupt from hanging on a loop that is stuck.
_CUT_TIMEOUT_S: Final = 30.0


class Transport:
    """Runs operations over pooled connections, a bounded number at a time, the rest waiting their turn.

    Safe for use by several threads. A forked child gets a thread and connections of its own and never touches the
    parent's; the fork waits until the parent's thread is outside libcurl, so that no lock of TLS or the allocator is
    held in the child.

    Args:
        config: concurrency, retries, timeouts and certificates.
        observer: called after each attempt, on the transport's thread.
    """

    def __init__(self, config: StoreConfig, observer: Observer | None = None) -> None:
        self._config = config
        self._observer = observer
        self._loop: Loop | None = None
        self._contact = Contact()
        # Reentrant: the collector may run a writer's destructor, which submits, at any point.
        self._lock = threading.RLock()
        self._finalizer: weakref.finalize[..., Any] | None = None
        renew_after_fork(self)
        _transports[id(self)] = self

    def submit(self, operations: Iterable[Operation[Any]], caller: Hashable = None) -> None:
        """Hand operations over. Their futures tell the outcome.

        Args:
            operations: they are begun in this order.
            caller: whose they are; callers are served in turn, however many operations each has waiting. None stands
                for a caller of its own in each call.
        """
        group = tuple(operations)
        for operation in group:
            operation.transport = self
        while True:
            loop = self._loop
            if loop is not None and loop.submit(group, caller):
                return
            with self._lock:
                if self._loop is loop:
                    self._loop = self._begin_loop()

    def _begin_loop(self) -> Loop:
        loop = Loop(self._config, self._observer, CurlEngine(self._config), self._contact)
        if self._finalizer is not None:
            self._finalizer.detach()
        self._finalizer = weakref.finalize(self, loop.stop)
        self._finalizer.atexit = False
        return loop

    def run(self, operation: Operation[T]) -> T:
        """Submit one operation and wait for its result; where the wait is interrupted, cut it and wait for that.

        Raises:
            StoreError: this is a transport's own thread; nothing is submitted.
        """
        refuse_to_wait(f"{operation.name} {operation.uri}")
        self.submit((operation,))
        try:
            return operation.future.result()
        except BaseException:
            if not operation.future.done():
                self.drop((operation,))
                wait([operation.future], timeout=_CUT_TIMEOUT_S)
            if operation.future.done():
                # The error keeps the frames that it passes, and so the operation, which must not keep it in turn.
                del operation.future
            raise

    def drop(self, operations: Iterable[Operation[Any]]) -> None:
        """Give operations up: those that wait never start, those on the way are cut; their futures fail."""
        for operation in operations:
            operation.dropped = True
        loop = self._loop
        if loop is not None:
            loop.look_for_dropped()

    def close(self, *, drain: bool = True, timeout_s: float | None = None) -> None:
        """End the thread and its connections, once what was submitted is done or, without ``drain``, at once.

        Raises:
            StoreError: this is a transport's own thread; the connections end in time, but that cannot be waited for.
        """
        loop = self._loop
        if loop is None:
            return
        loop.stop(drain=drain)
        refuse_to_wait("close")
        loop.join(timeout_s)  # It stays this transport's until then, so that what it does can be given up or cut short.
        with self._lock:
            if self._loop is loop:
                self._loop = None

    def renew(self) -> None:
        """Forget the parent's thread and connections, in a forked child."""
        self._lock = threading.RLock()
        loop, self._loop = self._loop, None
        if loop is not None:
            # libcurl's destructor would end TLS sessions that the parent goes on using: it must never run here.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(loop))


# By identity, so that it can be read in one step; see `torchbucket.store.forking`.
_transports: weakref.WeakValueDictionary[int, Transport] = weakref.WeakValueDictionary()


def close_all() -> None:
    """Cut every transport of the process short, at the interpreter's exit, and wait for none."""
    for reference in _transports.valuerefs():
        transport = reference()
        if transport is not None:
            transport.close(drain=False, timeout_s=0.0)
