"""When a loop looked at its sockets: how long what it then found may have been waiting for it."""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

__all__ = ["Rounds"]

# A wait that took longer was a sleep, which the first thing to arrive ended. Source: chosen; a look at sockets that are
# ready takes some 10 us.
_SLEPT_S: Final = 0.001
# By how much a moment that libcurl tells may be too early: it counts from where it takes a request up, which may be so
# much after the loop gave it. Source: 64 requests that are begun at once are some 5 ms of work.
_EARLY_S: Final = 0.005
# So many rounds are remembered, and up to twice as many kept. Source: chosen: a body of 8 MiB takes some hundred.
_REMEMBERED: Final = 1024


class Rounds:
    """Tells when something arrived at the earliest that a busy loop noticed only later.

    A loop that serves many connections finds a byte ready that came while it served the others. That wait is its own,
    and no sign of a slow service. Times are those of one monotonic clock. Not safe for use by several threads.
    """

    def __init__(self) -> None:
        self._woken_s: list[float] = []
        self._came_s: list[float] = []

    def note(self, asked_s: float, woken_s: float) -> None:
        """Note that the loop asked what is ready, and was told at ``woken_s``; it serves that now."""
        slept = woken_s - asked_s > _SLEPT_S or not self._woken_s
        self._came_s.append(woken_s if slept else self._woken_s[-1])
        self._woken_s.append(woken_s)
        if len(self._woken_s) > 2 * _REMEMBERED:
            del self._woken_s[:_REMEMBERED], self._came_s[:_REMEMBERED]

    def came_s(self, noticed_s: float) -> float:
        """When something had arrived at the earliest that the loop noticed at ``noticed_s``."""
        number = bisect_right(self._woken_s, noticed_s + _EARLY_S) - 1
        return min(noticed_s, self._came_s[number]) if number >= 0 else noticed_s
