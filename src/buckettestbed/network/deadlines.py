"""Calls at points of time, to some hundredths of a millisecond.

An event loop's own timers have the resolution of its poll call, 1 ms, which is 5 % of a 20 ms latency. On Linux one
timerfd serves all deadlines; elsewhere the loop's timers do.

A process that sleeps wakes late: 0.06 ms after a sleep of half a millisecond, 0.2 ms after one of 20 ms, on a virtual
machine whose processors halt when idle. So the timer is set early by as much as this machine has been late, and a call
is made up to `EARLY_S` before its time, but no earlier: a timer that woke up sooner is set again.
"""

import asyncio
import ctypes
import heapq
import os
import time
from collections.abc import Callable
from itertools import count
from typing import Protocol

__all__ = ["EARLY_S", "Deadlines", "Handle"]

EARLY_S = 30e-6
"""How much before its time a call may be made. *Source*: ours; 1.5 % of the least latency of a preset, 2 ms, and about
what going back to sleep would take."""

_LEAD_FIRST_S = 100e-6
"""What the lead begins with. *Source*: the lateness measured after a sleep of 2 ms, the least latency of a preset."""

_LEAD_MOST_S = 300e-6
"""The most that the timer is set early: what is later than that is load, which no lead compensates. *Source*: ours,
above the lateness measured after any sleep."""

_LEAD_STEP_S = 2e-6
"""How much the lead follows each wake-up, up or down, which lets it find their median. *Source*: ours; a hundred
wake-ups find it, and one late one moves nothing."""

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
        self._loop = loop
        self._now_s: float | None = None
        self._waiting: list[tuple[float, int, Handle]] = []
        self._order = count()
        self._timer: _Timer = _timer(loop, self._fire)
        self._armed_s = float("inf")
        self._lead_s = _LEAD_FIRST_S
        self._wakes_s: float | None = None

    def event_s(self) -> float:
        """Returns when the events that the loop is handling had happened, at the latest.

        It is the time of the first call among callbacks that the loop makes one after the other. What it read for the
        last of them had arrived before it began with the first, however long the others took.
        """
        if self._now_s is None:
            self._now_s = time.monotonic()
            self._loop.call_soon(self._forget_now)
        return self._now_s

    def _forget_now(self) -> None:
        self._now_s = None

    def call_at(self, when_s: float, callback: Callable[[float], None]) -> Handle:
        """Calls `callback(when_s)` at `when_s` on the clock of `time.monotonic`, at most `EARLY_S` before it, or as
        soon as can be after it."""
        handle = Handle(when_s, callback)
        heapq.heappush(self._waiting, (when_s, next(self._order), handle))
        if when_s < self._armed_s:
            self._arm(when_s, time.monotonic())
        return handle

    async def wait_until(self, when_s: float) -> None:
        """Returns when `time.monotonic()` has reached `when_s`, or at most `EARLY_S` before."""
        if when_s <= time.monotonic() + EARLY_S:
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

    def _arm(self, when_s: float, now_s: float) -> None:
        """Sets the timer for a deadline: early by the lead, unless the deadline is nearer than that."""
        self._armed_s = when_s
        wakes_s = when_s - self._lead_s
        if wakes_s > now_s:
            self._wakes_s = wakes_s
            self._timer.arm(wakes_s)
        else:
            self._wakes_s = None
            self._timer.arm(when_s - EARLY_S)

    def _fire(self) -> None:
        now_s = time.monotonic()
        if self._wakes_s is not None:
            step_s = _LEAD_STEP_S if now_s - self._wakes_s > self._lead_s else -_LEAD_STEP_S
            self._lead_s = min(_LEAD_MOST_S, max(0.0, self._lead_s + step_s))
            self._wakes_s = None
        self._armed_s = float("inf")
        while self._waiting and self._waiting[0][0] <= now_s + EARLY_S:
            when_s, _, handle = heapq.heappop(self._waiting)
            callback, handle.callback = handle.callback, None
            if callback is not None:
                callback(when_s)
        while self._waiting and self._waiting[0][2].callback is None:
            heapq.heappop(self._waiting)
        if self._waiting and self._waiting[0][0] < self._armed_s:
            self._arm(self._waiting[0][0], time.monotonic())


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
