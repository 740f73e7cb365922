"""When a read is late enough to be asked for a second time, and how often that may be done."""

from __future__ import annotations

import math
from typing import Final

__all__ = ["HedgePolicy"]

# A read is late when its first byte takes longer than this quantile of the latest reads, times a factor. Source: Dean
# and Barroso, "The Tail at Scale", CACM 2013: a second request after the 95th percentile adds about 5 % of load. The
# factor keeps reads of the ordinary spread out of it; measured in docs/retries.md.
_QUANTILE: Final = 0.95
_FACTOR: Final = 1.5
# Source: chosen; below it a second request costs more than it can win, and the process itself may be what was late.
_LEAST_LATE_S: Final = 0.025
# So many reads are remembered, and the quantile is computed anew after so many. Source: chosen: sorting 256 numbers
# takes about 15 us, hence a quarter of one a read.
_REMEMBERED: Final = 256
_RENEWED: Final = 64
# Fewer than so many tell nothing of the 95th percentile; until then the longest counts, times as much more as are
# missing. Source: chosen, so that the first batch of a small data set is not left to wait for its slowest read.
_ENOUGH_KNOWN: Final = 20
# Second requests that may be made at once, before the share of requests counts. Source: chosen; a third of the batches
# of 32 reads hold a late one where 1 % are late.
_BURST: Final = 8.0
# A body that does not move for so long, twice as long after each time, is asked for anew from there. Source: RFC 6298:
# a lost segment is sent again after a second at first, hence a network that recovers by itself has by then.
_LEAST_STALL_S: Final = 2.0
_STALL_FACTOR: Final = 8.0


class HedgePolicy:
    """Learns from the first bytes of a store's reads and keeps the account of second requests.

    Times are those of one monotonic clock, given by the caller. Not safe for use by several threads.

    Args:
        share: second requests for each request, at most; 0 for none.
    """

    def __init__(self, share: float) -> None:
        self._share = share
        self._tokens = _BURST
        self._latest_s: list[float] = []
        self._position = 0
        self._fresh = 0
        self.late_after_s: float | None = None
        """How long the first byte of a read may take before it is late; None while that is not known."""

    def learn(self, first_byte_s: float) -> None:
        """Note how long the first byte of a read took; of one that was broken off, how long it had not come."""
        if self._tokens < _BURST:
            self._tokens += self._share
        latest = self._latest_s
        if len(latest) < _REMEMBERED:
            latest.append(first_byte_s)
        else:
            latest[self._position] = first_byte_s
            self._position = (self._position + 1) % _REMEMBERED
        self._fresh += 1
        known = len(latest)
        if self._fresh >= min(_RENEWED, known // 4):
            self._fresh = 0
            quantile_s = sorted(latest)[int(_QUANTILE * known)]
            self.late_after_s = max(_LEAST_LATE_S, _FACTOR * max(1.0, _ENOUGH_KNOWN / known) * quantile_s)

    def stalled_after_s(self, attempt: int) -> float:
        """How long the body of a read's ``attempt`` may stand still before the rest is asked for anew."""
        usual_s = _STALL_FACTOR * (self.late_after_s or 0.0)
        return float(max(_LEAST_STALL_S, usual_s) * 2 ** min(attempt - 1, 20))

    @property
    def scarcity(self) -> float:
        """How many times as late a read must be to be worth one of the second requests that are left.

        It is 1 where all are left, infinite where none is: so a moment in which many are a little late does not use up
        what the few that are really late need.
        """
        return _BURST / self._tokens if self._tokens >= 1.0 else math.inf

    def take(self) -> bool:
        """Take one second request from the account; False where it is used up."""
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True
