"""How long to wait before another attempt."""

from __future__ import annotations

import random
import time
from email.utils import parsedate_to_datetime

from torchbucket.config import RetryConfig

__all__ = ["Backoff", "retry_after_s"]


class Backoff:
    """Exponential back-off with full jitter: a random time up to ``initial * multiplier ** (attempt - 1)``, bounded.

    Full jitter spreads the clients that were refused together over the whole wait. *Source:* AWS Architecture Blog,
    "Exponential Backoff and Jitter".
    """

    def __init__(self, config: RetryConfig, rng: random.Random | None = None) -> None:
        self.config = config
        # Seeded by the system for each loop, hence anew in each forked child.
        self._rng = rng if rng is not None else random.Random()  # noqa: S311  # spreads waits, guards nothing

    def delay_s(self, attempt: int, asked_s: float | None = None) -> float:
        """The wait after the failed ``attempt``, 1 being the first: no less than the server asked, within bounds."""
        config = self.config
        bound_s = min(config.maximum_s, config.initial_s * config.multiplier ** min(attempt - 1, 60))
        spread_s = bound_s * self._rng.random()
        return spread_s if asked_s is None else min(config.maximum_s, asked_s + spread_s)


def retry_after_s(value: str | None, *, now_s: float | None = None) -> float | None:
    """The seconds that a ``Retry-After`` header asks for, as a number or a date; None where it has neither."""
    if value is None:
        return None
    try:
        return max(0.0, float(int(value)))
    except ValueError:
        pass
    try:
        when_s = parsedate_to_datetime(value).timestamp()
    except ValueError:
        return None
    return max(0.0, when_s - (time.time() if now_s is None else now_s))
