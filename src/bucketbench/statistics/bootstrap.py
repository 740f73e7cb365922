"""How far the median of a few repeats, or the ratio of two, may be from what many more repeats would show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy
import numpy.typing

__all__ = ["CONFIDENCE", "MINIMUM_REPEATS", "Interval", "attainable_confidence", "median_interval", "ratio_interval"]

CONFIDENCE = 0.95
"""Confidence that an interval is made for. *Source*: the usual convention."""

MINIMUM_REPEATS = 3
"""Fewest repeats of which an interval is made. *Source*: with two, ``attainable_confidence`` is a coin toss, 0.5."""

_RESAMPLES = 10_000
"""*Source*: Efron and Tibshirani, "An Introduction to the Bootstrap" (1993), section 13.3, ask for 1,000 at least."""

_Floats = numpy.typing.NDArray[numpy.float64]
_Indices = numpy.typing.NDArray[numpy.int64]


@dataclass(frozen=True, kw_only=True, slots=True)
class Interval:
    """A range that holds the true value with some confidence.

    Args:
        low: its lower end, inclusive.
        high: its upper end, inclusive.
        confidence: how sure it can be at most, between 0 and 1: below 0.95 where there were too few repeats for that.
    """

    low: float
    high: float
    confidence: float

    def __contains__(self, value: float) -> bool:
        """Whether the value lies within the interval."""
        return self.low <= value <= self.high


def attainable_confidence(repeats: int) -> float:
    """How sure an interval of so many repeats can be at most, never above ``CONFIDENCE``.

    No range between two of the values that were seen holds the median with more confidence than the range of them all,
    which misses it when all n fall on the same side of it, with a chance of 2 to the power 1 - n. That leaves 75 % for
    3 repeats, 94 % for 5 and above 95 % from 6 on. *Source*: the sign test; David and Nagaraja, "Order Statistics"
    (2003), section 7.1.
    """
    return min(CONFIDENCE, 1 - 2.0 ** (1 - repeats)) if repeats > 0 else 0.0


def median_interval(values: Sequence[float], *, seed: int = 0) -> Interval:
    """The interval of the median over repeats, by the percentile bootstrap.

    *Source*: Efron and Tibshirani (1993), section 13.3. The percentile method, and not BCa, since the acceleration of a
    median is not estimated well from so few values, and since it maps onto ratios and inverses unchanged.

    Args:
        values: one finite value a repeat, in any order.
        seed: of the resampling; the same seed and values give the same interval.

    Raises:
        ValueError: for fewer than ``MINIMUM_REPEATS`` values.
    """
    _require(len(values))
    ordered = numpy.sort(numpy.asarray(values, dtype=numpy.float64))
    medians = numpy.median(ordered[_draws(numpy.random.default_rng(seed), len(ordered))], axis=1)
    low, high = _ends(medians)
    return Interval(low=low, high=high, confidence=attainable_confidence(len(ordered)))


def ratio_interval(
    numerators: Sequence[float], denominators: Sequence[float], *, paired: bool, seed: int = 0
) -> Interval:
    """The interval of the ratio of two medians, by the percentile bootstrap.

    Swapping both sides gives the inverse interval.

    Args:
        numerators: one value above 0 a repeat.
        denominators: likewise; of the same repeats in the same order where ``paired``.
        paired: whether values at the same place were measured next to each other, so that they are drawn together:
            what slowed the host for both then does not widen the interval.
        seed: of the resampling.

    Raises:
        ValueError: for fewer than ``MINIMUM_REPEATS`` values on a side, for values that are not above 0, or for pairs
            that do not match in number.
    """
    _require(min(len(numerators), len(denominators)))
    if paired and len(numerators) != len(denominators):
        raise ValueError(
            f"pairs need as many numerators as denominators, got {len(numerators)} and {len(denominators)}"
        )
    if min(*numerators, *denominators) <= 0:
        raise ValueError("a ratio needs values above 0 on both sides")
    if tuple(numerators) > tuple(denominators):  # one order for both ways round, so that they draw the same
        inverse = ratio_interval(denominators, numerators, paired=paired, seed=seed)
        return Interval(low=1 / inverse.high, high=1 / inverse.low, confidence=inverse.confidence)
    generator = numpy.random.default_rng(seed)
    above, below = _in_order(numerators, denominators, paired=paired)
    draws_above = _draws(generator, len(above))
    draws_below = draws_above if paired else _draws(generator, len(below))
    # Logarithms, so that interpolating between two ratios is the same as between their inverses.
    logarithms = numpy.log(numpy.median(above[draws_above], axis=1)) - numpy.log(
        numpy.median(below[draws_below], axis=1)
    )
    low, high = numpy.exp(_ends(logarithms))
    return Interval(
        low=float(low), high=float(high), confidence=attainable_confidence(min(len(numerators), len(denominators)))
    )


def _require(repeats: int) -> None:
    if repeats < MINIMUM_REPEATS:
        raise ValueError(f"an interval needs {MINIMUM_REPEATS} repeats, got {repeats}")


def _in_order(numerators: Sequence[float], denominators: Sequence[float], *, paired: bool) -> tuple[_Floats, _Floats]:
    if paired:
        pairs = numpy.array(sorted(zip(numerators, denominators, strict=True)), dtype=numpy.float64)
        return pairs[:, 0], pairs[:, 1]
    return numpy.sort(numpy.asarray(numerators, numpy.float64)), numpy.sort(numpy.asarray(denominators, numpy.float64))


def _draws(generator: numpy.random.Generator, repeats: int) -> _Indices:
    return generator.integers(0, repeats, size=(_RESAMPLES, repeats))


def _ends(values: _Floats) -> tuple[float, float]:
    tail = (1 - CONFIDENCE) / 2
    low, high = numpy.quantile(values, (tail, 1 - tail))
    return float(low), float(high)
