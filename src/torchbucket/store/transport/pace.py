"""The rate of a store's requests: unlimited until the service refuses some, then what it is seen to grant."""

from __future__ import annotations

from typing import Final

__all__ = ["Pace"]

# Answers are judged together over so long. Source: chosen; the AWS SDKs' adaptive mode measures over half a second too.
_WINDOW_S: Final = 0.5
# A window much longer than that was mostly idle, and its rate means nothing.
_IDLE_S: Final = 4 * _WINDOW_S
# Refusals up to this share do not limit the rate. Source: the loss that the BBR draft (IETF, "BBRLossThresh") tolerates
# before it takes losses for congestion; S3 and Cloud Storage refuse single requests also far below their limits.
_TOLERATED: Final = 0.02
_LEAST_REFUSED: Final = 2
# So many refusals at once are judged before the window's end.
_MANY_REFUSED: Final = 32
_SHORT_WINDOW_S: Final = 0.1
# By how much the rate grows in a window without refusals, and how many such windows that the limit did not bind end it.
_GROWTH: Final = 1.05
_CALM_WINDOWS: Final = 6
# Where this many windows in a row were refused the same share though no more was sent than the service had granted, the
# refusals do not follow our rate: S3 splits a prefix, or others ask for more than there is. Then so much more than what
# is granted is sent, or the rate would go down to its least for as long as that lasts.
# Source: Site Reliability Engineering, "Handling Overload": clients send K times what is accepted, K from 1.1 to 2.
_STUBBORN_WINDOWS: Final = 3
_STUBBORN_FACTOR: Final = 1.5
# No refusals take the rate below this share of what was granted when they began: waiting for the end of an outage is
# the task of back-off and retry budget.
_LEAST_SHARE: Final = 0.1
_LEAST_PER_S: Final = 5.0
# Requests may begin together that belong to so long. Source: the loop wakes up once or twice in that time.
_BURST_S: Final = 0.02


class Pace:
    """Decides when a request may begin, from how many answers were refusals (429, 503 SlowDown).

    While less than one answer in fifty is refused there is no limit. When more are, the rate is set to that of the
    accepted answers, which is what the service grants, whatever its limit and whoever shares it; it grows by a
    twentieth each half second without refusals, and the limit ends when it has not bound for three seconds.

    Times are those of one monotonic clock, given by the caller. Not safe for use by several threads.
    """

    def __init__(self) -> None:
        self.rate_per_s: float | None = None
        """Requests a second that may begin; None where there is no limit."""
        self._began_s: float | None = None  # the window
        self._answers = 0
        self._refused = 0
        self._has_bound = False
        self._last_share = 0.0
        self._stubborn = 0
        self._calm = 0
        self._peak_per_s = 0.0
        self._next_s = 0.0

    @property
    def strained(self) -> bool:
        """Whether the service refuses so much that the rate is limited."""
        return self.rate_per_s is not None

    def answered(self, now_s: float, *, refused: bool) -> None:
        """Count an answer."""
        if self._began_s is None:
            self._began_s = now_s
        self._answers += 1
        if refused:
            self._refused += 1
        if now_s - self._began_s >= (_WINDOW_S if self._refused < _MANY_REFUSED else _SHORT_WINDOW_S):
            self._judge(now_s)

    def wait_s(self, now_s: float) -> float:
        """Seconds until the next request may begin; 0 where it may now."""
        if self.rate_per_s is None or self._next_s <= now_s:
            return 0.0
        self._has_bound = True
        return self._next_s - now_s

    def begin(self, now_s: float) -> None:
        """Count a request that begins."""
        if self.rate_per_s is not None:
            self._next_s = max(self._next_s, now_s - _BURST_S) + 1.0 / self.rate_per_s

    def _judge(self, now_s: float) -> None:
        assert self._began_s is not None
        elapsed_s = now_s - self._began_s
        share = self._refused / self._answers
        if self._refused >= _LEAST_REFUSED and share > _TOLERATED:
            if elapsed_s <= _IDLE_S:
                self._limit(self._answers / elapsed_s, share)
        elif self.rate_per_s is not None:
            self._stubborn = 0
            if self._has_bound:
                self._calm = 0
                self.rate_per_s *= _GROWTH
            else:
                self._calm += 1
                if self._calm >= _CALM_WINDOWS:
                    self.rate_per_s = None
        self._last_share = share
        self._began_s, self._answers, self._refused, self._has_bound = now_s, 0, 0, False

    def _limit(self, answered_per_s: float, share: float) -> None:
        granted_per_s = answered_per_s * (1 - share)
        self._calm = 0
        if self.rate_per_s is None:
            self._peak_per_s, self._stubborn = granted_per_s, 0
        else:
            self._stubborn = self._stubborn + 1 if share > self._last_share / 2 else 0
            if self._stubborn >= _STUBBORN_WINDOWS:
                granted_per_s = max(self.rate_per_s, granted_per_s * _STUBBORN_FACTOR)
            else:
                # Where less was asked than the limit allows, what was granted is no measure of what would be.
                granted_per_s = max(granted_per_s, self.rate_per_s * (1 - share))
        self.rate_per_s = max(granted_per_s, self._peak_per_s * _LEAST_SHARE, _LEAST_PER_S)
