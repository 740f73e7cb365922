"""Calls that are made at a later moment, on one thread of the process."""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
import time
from collections.abc import Callable

from torchbucket.store.daemon_thread import call_at_exit
from torchbucket.store.forking import renew_after_fork
from torchbucket.store.store_future import TransportThread

__all__ = ["call_at"]

_log = logging.getLogger("torchbucket.wrappers")


class _Delays:
    """A heap of calls and the thread that makes them. The thread ends when nothing is left."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self.renew()
        renew_after_fork(self)

    def renew(self) -> None:
        """Begin with nothing, in a forked child: what was to come was the parent's."""
        self._changed = threading.Condition()
        self._calls: list[tuple[float, int, Callable[[], None]]] = []
        self._running = False

    def add(self, due_s: float, call: Callable[[], None]) -> None:
        with self._changed:
            if not self._running:
                TransportThread(self._run, "torchbucket-delays").start()
                self._running = True
            heapq.heappush(self._calls, (due_s, next(self._numbers), call))
            self._changed.notify()

    def end(self) -> None:
        """Make none of the calls that are to come, and have the thread end, at the interpreter's exit."""
        with self._changed:
            self._calls.clear()
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._calls:
                    self._running = False
                    return
                left_s = self._calls[0][0] - time.monotonic()
                if left_s > 0:
                    self._changed.wait(left_s)
                    continue
                call = heapq.heappop(self._calls)[2]
            try:
                call()
            except Exception:  # noqa: BLE001  # one caller's mistake is not the others' failure
                _log.exception("a delayed call failed")


_delays = _Delays()
call_at_exit(_delays.end)


def call_at(due_s: float, call: Callable[[], None]) -> None:
    """Have ``call`` made on the thread of delayed calls at ``due_s`` of the monotonic clock, or soon after."""
    _delays.add(due_s, call)
