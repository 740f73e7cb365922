"""Requests a second for each prefix, beyond which a provider refuses them."""

import time
from collections.abc import Callable

__all__ = ["RequestRates"]

_KNOWN_PREFIXES_LIMIT = 10_000
"""Prefixes whose rate is remembered; above it those that are idle are forgotten. *Source*: ours."""


class RequestRates:
    """Token buckets by bucket and prefix, reads and writes apart; a prefix is a key up to its last `/`.

    Each bucket holds one second's worth, so that a burst of that many passes. A refused request takes no token.

    Args:
        reads_per_s: GET and HEAD requests a second a prefix, or None for no limit.
        writes_per_s: all others, or None for no limit.
        clock: seconds.
    """

    def __init__(
        self,
        *,
        reads_per_s: float | None,
        writes_per_s: float | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limits = {False: reads_per_s, True: writes_per_s}
        self._clock = clock
        self._left: dict[tuple[str, str, bool], tuple[float, float]] = {}

    def admit(self, bucket: str, key: str, *, writes: bool) -> bool:
        """Returns whether a request is within its prefix's rate, and takes its token if so."""
        limit = self._limits[writes]
        if limit is None:
            return True
        now_s = self._clock()
        which = (bucket, key.rpartition("/")[0], writes)
        tokens, at_s = self._left.get(which, (max(1.0, limit), now_s))
        tokens = min(max(1.0, limit), tokens + (now_s - at_s) * limit)
        admitted = tokens >= 1.0
        if which not in self._left and len(self._left) >= _KNOWN_PREFIXES_LIMIT:
            self._left = {name: (left, seen_s) for name, (left, seen_s) in self._left.items() if now_s - seen_s < 1.0}
        self._left[which] = (tokens - admitted, now_s)
        return admitted
