"""Between which values a median, or the ratio of two clients, lies: intervals whose coverage is known exactly.

Neither interval assumes a distribution, and neither draws at random below 17 repeats, so that the same values give the
same interval anywhere.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy
import numpy.typing

__all__ = [
    "CONFIDENCE",
    "MINIMUM_REPEATS",
    "Interval",
    "interval_obstacle",
    "median_interval",
    "ratio_interval",
    "same_values_obstacle",
]

CONFIDENCE = 0.95
"""Confidence that an interval has at least. *Source*: the usual convention."""

MINIMUM_REPEATS = 6
"""Fewest repeats of which an interval is made.

*Source*: the widest interval there is, from the smallest value to the largest, misses the truth when all n values fall
on the same side of it, with a chance of 2 to the power 1 - n: 6.25 % for 5 repeats and 3.1 % for 6.
"""

_ALL_SUBSETS_UP_TO = 16  # repeats: 65,535 subsets, 20 ms; beyond, as many are drawn
_SAME = 1e-12  # logarithms of measured ratios that differ by less come from values that were not measured one by one

_Floats = numpy.typing.NDArray[numpy.float64]


@dataclass(frozen=True, kw_only=True, slots=True)
class Interval:
    """A range that holds the true value with some confidence.

    Args:
        low: its lower end, inclusive.
        high: its upper end, inclusive.
        confidence: the chance that such a range holds the true value, between ``CONFIDENCE`` and 1.
    """

    low: float
    high: float
    confidence: float

    def __contains__(self, value: float) -> bool:
        """Whether the value lies within the interval."""
        return self.low <= value <= self.high


def interval_obstacle(values: Sequence[float]) -> str | None:
    """Why no interval can be made of the values of so many repeats, None where one can be."""
    if len(values) < MINIMUM_REPEATS:
        return f"a statement at {CONFIDENCE:.0%} confidence needs {MINIMUM_REPEATS} repeats, got {len(values)}"
    return same_values_obstacle(values)


def same_values_obstacle(values: Sequence[float]) -> str | None:
    """Why nothing can be told of how the values of several repeats vary, None where they differ."""
    if len(values) > 1 and max(values) - min(values) <= _SAME * max(abs(value) for value in values):
        return f"all {len(values)} repeats gave the same value, so that nothing tells how they vary"
    return None


def median_interval(values: Sequence[float]) -> Interval:
    """The interval of the median of what was measured, from order statistics.

    *Source*: the sign test; David and Nagaraja, "Order Statistics" (2003), section 7.1. Its confidence is exact for any
    continuous distribution.

    Args:
        values: one finite value a repeat, in any order.

    Raises:
        ValueError: where ``interval_obstacle`` has a reason.
    """
    _require(values)
    ordered = sorted(values)
    count = len(ordered)
    # The chance that fewer than `rank` values lie below the median: of one tail.
    tail, rank = 2.0**-count, 1
    while 1 - 2 * (tail + math.comb(count, rank) * 2.0**-count) >= CONFIDENCE:
        tail += math.comb(count, rank) * 2.0**-count
        rank += 1
    return Interval(low=ordered[rank - 1], high=ordered[count - rank], confidence=1 - 2 * tail)


def ratio_interval(numerators: Sequence[float], denominators: Sequence[float]) -> Interval:
    """The interval of how many times the numerators are the denominators, from pairs: the exact sign-flip test's.

    It holds every ratio that the test does not reject: the test asks how unusual the mean of the pairs' log ratios is
    among those that arise when each of them may as well have the other sign. Its ends are found without trying ratios:
    the means of all subsets of the log ratios cut the line into pieces, each of which holds the centre with the same
    chance. Where the two sides are exchangeable, as with a client against itself, the confidence is exact whatever the
    distribution; in general the log ratios have to be symmetric. Swapping both sides gives the inverse interval.

    *Source*: Hartigan, "Using subsample values as typical values" (Journal of the American Statistical Association 64,
    1969), theorem 1; Efron and Tibshirani (1993), section 15.2, for the test.

    Args:
        numerators: one value above 0 a repeat.
        denominators: likewise, of the same repeats in the same order: what slows the host for both then does not widen
            the interval.

    Raises:
        ValueError: where the sides differ in number, a value is not above 0, or ``interval_obstacle`` has a reason.
    """
    if len(numerators) != len(denominators):
        raise ValueError(
            f"pairs need as many numerators as denominators, got {len(numerators)} and {len(denominators)}"
        )
    if min(*numerators, *denominators, math.inf) <= 0:
        raise ValueError("a ratio needs values above 0 on both sides")
    ratios = [above / below for above, below in zip(numerators, denominators, strict=True)]
    _require(ratios)
    # Sorted, because the sum of floats depends on their order and an interval must not.
    means = numpy.sort(_subset_means(numpy.sort(numpy.log(ratios))))
    pieces = len(means) + 1
    rank = math.floor(pieces * (1 - CONFIDENCE) / 2)
    low, high = numpy.exp((means[rank - 1], means[len(means) - rank]))
    return Interval(low=float(low), high=float(high), confidence=1 - 2 * rank / pieces)


def _require(values: Sequence[float]) -> None:
    obstacle = interval_obstacle(values)
    if obstacle is not None:
        raise ValueError(obstacle)


def _subset_means(values: _Floats) -> _Floats:
    """The mean of every subset that is not empty; of 65,535 random ones where there are more."""
    count = len(values)
    if count <= _ALL_SUBSETS_UP_TO:
        members = (numpy.arange(1, 2**count)[:, None] >> numpy.arange(count)) & 1
    else:
        drawn = numpy.random.default_rng(0).integers(0, 2, size=(2**_ALL_SUBSETS_UP_TO, count))
        members = drawn[drawn.any(axis=1)][: 2**_ALL_SUBSETS_UP_TO - 1]
    means: _Floats = members @ values / members.sum(axis=1)
    return means
