"""A cap on the bytes that a store moves in a second."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

__all__ = ["Bandwidth"]

# What may come at once after a silence. Source: chosen; long enough for the loop's own delays to cost no bandwidth.
_BURST_S: Final = 0.05


class Bandwidth:
    """A token bucket in bytes that may be overdrawn: what came too early is waited for afterwards.

    So the mean is right whatever the size of the pieces. Not safe for use by several threads.

    Args:
        bytes_per_s: the cap.
        clock: the monotonic clock, for tests.
    """

    def __init__(self, bytes_per_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._bytes_per_s = bytes_per_s
        self._clock = clock
        self._paid_s = clock()  # up to when what was moved has been paid for

    def spend(self, size_bytes: int) -> None:
        """Count bytes that were moved."""
        self._paid_s = max(self._paid_s, self._clock() - _BURST_S) + size_bytes / self._bytes_per_s

    def wait_s(self) -> float:
        """Seconds until more may be moved; 0 where it may now."""
        return max(0.0, self._paid_s - self._clock())
