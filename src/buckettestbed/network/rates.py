"""Requests a second for each prefix, beyond which a provider refuses them."""

import time
from collections.abc import Callable

__all__ = ["RequestRates"]

BURST_S = 1.0
"""How many seconds' worth of requests may come at once. *Source*: ours; the providers state requests a second and no
burst, and a second is the shortest time over which that statement means something."""

_SWEEP_LEAST = 1024
"""Prefixes that are remembered before the first look for those to forget. *Source*: ours, about 200 KiB."""

_ROUNDING = 1e-9
"""Share of a request that sums of floating-point times may be off. *Source*: ours, far above double precision's error
for a monotonic clock and far below a request."""


class RequestRates:
    """Token buckets by bucket and prefix, reads and writes apart; a prefix is a key up to its last `/`.

    A token bucket fills at its rate up to `burst_s` seconds' worth, at least one request; a request that finds a token
    takes it, any other is refused and takes none. So in any time t a prefix is admitted `(burst_s + t) · rate` requests
    at most, and one that never asks faster than the rate is never refused.

    Each token bucket is kept as the one time at which it will be full again. One that is full is as good as one never
    heard of, so it is forgotten: what is remembered are the prefixes asked for within the last `burst_s`, or twice as
    many. One event loop owns it; not thread-safe.

    Args:
        reads_per_s: GET and HEAD requests a second a prefix, or None for no limit.
        writes_per_s: all others, or None for no limit.
        burst_s: seconds' worth of requests that may come at once.
        clock: seconds.

    *Source*: the generic cell rate algorithm, ITU-T I.371 annex A, in its form with a theoretical arrival time.
    """

    def __init__(
        self,
        *,
        reads_per_s: float | None,
        writes_per_s: float | None,
        burst_s: float = BURST_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limits = {False: reads_per_s, True: writes_per_s}
        self._burst_s = burst_s
        self._clock = clock
        self._full_at_s: dict[tuple[str, str, bool], float] = {}
        self._sweep_at = _SWEEP_LEAST

    def admit(self, bucket: str, key: str, *, writes: bool) -> bool:
        """Returns whether a request is within its prefix's rate, and takes its token if so."""
        limit = self._limits[writes]
        if limit is None:
            return True
        now_s = self._clock()
        which = (bucket, key.rpartition("/")[0], writes)
        full_at_s = max(now_s, self._full_at_s.get(which, now_s)) + 1 / limit
        if (full_at_s - now_s) * limit > max(1.0, self._burst_s * limit) + _ROUNDING:
            return False
        self._full_at_s[which] = full_at_s
        if len(self._full_at_s) >= self._sweep_at:
            self._forget_full(now_s)
        return True

    @property
    def remembered(self) -> int:
        """How many prefixes are remembered."""
        return len(self._full_at_s)

    def _forget_full(self, now_s: float) -> None:
        """Forgets full token buckets; so rarely that it costs each request a constant."""
        self._full_at_s = {which: full_at_s for which, full_at_s in self._full_at_s.items() if full_at_s > now_s}
        self._sweep_at = max(_SWEEP_LEAST, 2 * len(self._full_at_s))
