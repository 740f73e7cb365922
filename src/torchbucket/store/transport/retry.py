"""How long to wait before another attempt: back-off by kind of failure, and a budget for all retries of a store."""

from __future__ import annotations

import random
import time
from email.utils import parsedate_to_datetime
from typing import Final

from torchbucket.config import RetryConfig

__all__ = ["Backoff", "RetryBudget", "retry_after_s"]

# A single failure among good answers tells nothing of the service, and another attempt right away nearly always
# succeeds. The wait is there so that requests which broke together, such as with a load balancer, spread a little. Many
# refusals are answered by the pace of all requests, so that a single one needs no long wait either.
# Source: docs/retries.md; with the default initial_s of 0.2 s these are 10 ms and 25 ms.
_PROMPT_SHARE: Final = 1 / 20
_REFUSED_SHARE: Final = 1 / 8

# Source: the token bucket of the AWS SDKs' "standard" retry mode: 500 tokens, 5 a retry, 1 back for each success.
_BURST: Final = 100.0
_EARNED: Final = 0.2
# Retries a second that are allowed whatever happened before, so that the end of an outage is noticed. Source: chosen;
# with 1,000 processes in an outage it makes 10,000 requests a second, less than twice what one prefix of S3 answers.
_ALWAYS_PER_S: Final = 10.0


class Backoff:
    """Exponential back-off with full jitter: a random time up to ``initial * multiplier ** n``, bounded.

    The first failure of a request is tried again almost at once. Full jitter spreads the clients that failed together
    over the whole wait. *Source:* AWS Architecture Blog, "Exponential Backoff and Jitter".
    """

    def __init__(self, config: RetryConfig, rng: random.Random | None = None) -> None:
        self.config = config
        # Seeded by the system for each loop, hence anew in each forked child.
        self._rng = rng if rng is not None else random.Random()  # noqa: S311  # spreads waits, guards nothing

    def delay_s(self, attempt: int, *, refused: bool = False, asked_s: float | None = None) -> float:
        """The wait after the failed ``attempt``, 1 being the first: no less than the server asked, within bounds.

        Args:
            attempt: which attempt of the request failed.
            refused: the server asked to slow down.
            asked_s: the seconds that its answer asks for.
        """
        config = self.config
        if attempt == 1:
            bound_s = config.initial_s * (_REFUSED_SHARE if refused else _PROMPT_SHARE)
        else:
            bound_s = config.initial_s * config.multiplier ** min(attempt - 2, 60)
        spread_s = min(config.maximum_s, bound_s) * self._rng.random()
        return spread_s if asked_s is None else min(config.maximum_s, asked_s + spread_s)


class RetryBudget:
    """Bounds the retries of a store to a share of its requests, so that an outage does not multiply the load.

    A token bucket that may be overdrawn: a retry beyond the budget is not refused, it waits until the budget allows it.
    Not safe for use by several threads.
    """

    def __init__(self, *, burst: float = _BURST, earned: float = _EARNED, always_per_s: float = _ALWAYS_PER_S) -> None:
        self._burst = burst
        self._earned = earned
        self._always_per_s = always_per_s
        self._tokens = burst
        self._filled_s: float | None = None

    def earn(self) -> None:
        """Note a request that was answered."""
        if self._tokens < self._burst:
            self._tokens = min(self._burst, self._tokens + self._earned)

    def take_s(self, now_s: float, most_s: float) -> float:
        """Take one retry from the budget; return the seconds, at most ``most_s``, until it may be made."""
        if self._filled_s is not None:
            self._tokens = min(self._burst, self._tokens + (now_s - self._filled_s) * self._always_per_s)
        self._filled_s = now_s
        self._tokens -= 1.0
        # No deeper in debt than the longest wait can pay, so that what comes after an outage is not held up by it.
        self._tokens = max(self._tokens, -most_s * self._always_per_s)
        return max(0.0, -self._tokens / self._always_per_s)


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
