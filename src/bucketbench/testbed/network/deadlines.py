"""Calls at points of time, to well under a millisecond.

An event loop's own timers have the resolution of its poll call, 1 ms, which is 5 % of a 20 ms latency. On Linux one
timerfd serves all deadlines; elsewhere the loop's timers do.
"""

import asyncio
import ctypes
import heapq
import os
import time
from collections.abc import Callable
from itertools import count
from typing import Protocol

__all__ = ["Deadlines", "Handle"]

_CLOCK_MONOTONIC = 1
_TFD_TIMER_ABSTIME = 1
_TFD_NONBLOCK, _TFD_CLOEXEC = os.O_NONBLOCK, getattr(os, "O_CLOEXEC", 0)
"""*Source*: Linux, timerfd_create(2): the flags equal those of open(2); CLOCK_MONOTONIC is what `time.monotonic`
reads."""


class Handle:
    """A call that waits for its time; `cancel` it at most once, before it was made."""

    __slots__ = ("callback", "when_s")

    def __init__(self, when_s: float, callback: Callable[[float], None]) -> None:
        self.when_s = when_s
        self.callback: Callable[[float], None] | None = callback

    def cancel(self) -> None:
        """Prevents the call."""
        self.callback = None


class Deadlines:
    """Makes calls when `time.monotonic()` reaches their times. One event loop owns it; not thread-safe."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._waiting: list[tuple[float, int, Handle]] = []
        self._order = count()
        self._timer: _Timer = _timer(loop, self._fire)
        self._armed_s = float("inf")

    def call_at(self, when_s: float, callback: Callable[[float], None]) -> Handle:
        """Calls `callback(when_s)` at `when_s` on the clock of `time.monotonic`, or as soon as can be after it."""
        handle = Handle(when_s, callback)
        heapq.heappush(self._waiting, (when_s, next(self._order), handle))
        if when_s < self._armed_s:
            self._armed_s = when_s
            self._timer.arm(when_s)
        return handle

    async def wait_until(self, when_s: float) -> None:
        """Returns when `time.monotonic()` has reached `when_s`."""
        if when_s <= time.monotonic():
            return
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        handle = self.call_at(when_s, lambda _: None if done.done() else done.set_result(None))
        try:
            await done
        finally:
            handle.cancel()

    def close(self) -> None:
        """Frees the timer; calls that wait are never made."""
        self._waiting.clear()
        self._timer.close()

    def _fire(self) -> None:
        self._armed_s = float("inf")
        now_s = time.monotonic()
        while self._waiting and self._waiting[0][0] <= now_s:
            when_s, _, handle = heapq.heappop(self._waiting)
            callback, handle.callback = handle.callback, None
            if callback is not None:
                callback(when_s)
        while self._waiting and self._waiting[0][2].callback is None:
            heapq.heappop(self._waiting)
        if self._waiting and self._waiting[0][0] < self._armed_s:
            self._armed_s = self._waiting[0][0]
            self._timer.arm(self._armed_s)


class _Timer(Protocol):
    def arm(self, when_s: float) -> None: ...

    def close(self) -> None: ...


class _LoopTimer:
    """The loop's own timer; may fire up to a resolution early, then it waits again."""

    def __init__(self, loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
        self._loop, self._callback = loop, callback
        self._handle: asyncio.TimerHandle | None = None

    def arm(self, when_s: float) -> None:
        self.close()
        self._handle = self._loop.call_later(max(0.001, when_s - time.monotonic()), self._callback)

    def close(self) -> None:
        if self._handle is not None:
            self._handle.cancel()


class _ItimerSpec(ctypes.Structure):
    _fields_ = (
        ("interval_s", ctypes.c_long),
        ("interval_ns", ctypes.c_long),
        ("value_s", ctypes.c_long),
        ("value_ns", ctypes.c_long),
    )


class _TimerFd:
    """A timerfd that the loop watches; Python has no call for it before 3.13, the C library has."""

    def __init__(self, loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
        self._library = ctypes.CDLL(None, use_errno=True)
        self._fd: int = self._library.timerfd_create(_CLOCK_MONOTONIC, _TFD_NONBLOCK | _TFD_CLOEXEC)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create failed")
        self._loop, self._callback = loop, callback
        self._spec = _ItimerSpec(0, 0, 0, 0)
        self._pointer = ctypes.byref(self._spec)
        loop.add_reader(self._fd, self._readable)

    def arm(self, when_s: float) -> None:
        whole = int(when_s)
        self._spec.value_s = whole
        self._spec.value_ns = max(
            1, int((when_s - whole) * 1e9) + 1
        )  # 0, 0 would disarm it; + 1 so as not to fire early.
        self._library.timerfd_settime(self._fd, _TFD_TIMER_ABSTIME, self._pointer, None)

    def close(self) -> None:
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1

    def _readable(self) -> None:
        try:
            os.read(self._fd, 8)
        except BlockingIOError:  # Armed anew between the event and this call: it will fire again.
            return
        self._callback()


def _timer(loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> _Timer:
    try:
        return _TimerFd(loop, callback)
    except (OSError, AttributeError):  # Not Linux: the loop's timers are coarser, not wrong.
        return _LoopTimer(loop, callback)
