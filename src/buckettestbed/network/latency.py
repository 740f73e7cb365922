"""When the first byte of an answer comes, as the network model distributes it."""

import math
import random
from statistics import NormalDist

from buckettestbed.network.model import NetworkModel

__all__ = ["FirstByte"]

_STANDARD_NORMAL = NormalDist()
_HALVINGS = 100
"""Steps of a bisection that leave nothing of a double's 53 bits undecided."""


class FirstByte:
    """First-byte latencies of a model: draws of them, their mean and their quantiles.

    A latency is `m * exp(s * z)`: m is `tail_first_byte_s` with `tail_probability`, else `first_byte_s`; z is standard
    normal; s is `first_byte_sigma`, 0 for a constant. With f and t for the two times, p for the probability and Φ for
    the standard normal distribution function:

        mean = ((1 - p) * f + p * t) * exp(s² / 2)
        share of latencies up to x = (1 - p) * Φ(ln(x / f) / s) + p * Φ(ln(x / t) / s)

    Not thread-safe. The same model, its seed included, draws the same sequence.
    """

    def __init__(self, model: NetworkModel) -> None:
        self._usual_s, self._sigma = model.first_byte_s, model.first_byte_sigma
        self._tail_s, self._tail_probability = model.tail_first_byte_s, model.tail_probability
        self._random = random.Random(model.seed)  # noqa: S311 - a reproducible draw of latencies, no secret.

    def draw_s(self) -> float:
        """Returns the next latency in seconds."""
        scale_s = self._usual_s
        if self._tail_probability and self._random.random() < self._tail_probability:
            scale_s = self._tail_s
        return scale_s * self._random.lognormvariate(0.0, self._sigma) if self._sigma else scale_s

    @property
    def mean_s(self) -> float:
        """The mean latency in seconds."""
        probability = self._tail_probability
        scale_s = (1 - probability) * self._usual_s + probability * self._tail_s
        return scale_s * math.exp(self._sigma**2 / 2)

    def quantile_s(self, share: float) -> float:
        """Returns the latency in seconds that this share of requests, between 0 and 1, does not exceed."""
        if not 0 < share < 1:
            raise ValueError(f"a quantile of {share!r} was asked for; expected a share between 0 and 1, both excluded")
        excess = share - (1 - self._tail_probability)
        if not self._sigma:
            return self._usual_s if excess <= 0 else self._tail_s
        if not self._usual_s:  # The logarithm below has no place for it.
            return 0.0 if excess <= 0 else self._scaled_s(self._tail_s, excess / self._tail_probability)
        least_s, most_s = self._scaled_s(self._usual_s, share), self._scaled_s(self._tail_s, share)
        if not self._tail_probability:
            return least_s
        for _ in range(_HALVINGS):
            middle_s = (least_s + most_s) / 2
            if self._share_until(middle_s) < share:
                least_s = middle_s
            else:
                most_s = middle_s
        return most_s

    def _scaled_s(self, scale_s: float, share: float) -> float:
        """Returns the quantile of a log-normal latency with this median."""
        return scale_s * math.exp(self._sigma * _STANDARD_NORMAL.inv_cdf(share))

    def _share_until(self, latency_s: float) -> float:
        """Returns the share of latencies of at most this many seconds."""
        usual, tail = (
            _STANDARD_NORMAL.cdf(math.log(latency_s / scale_s) / self._sigma)
            for scale_s in (self._usual_s, self._tail_s)
        )
        return (1 - self._tail_probability) * usual + self._tail_probability * tail
