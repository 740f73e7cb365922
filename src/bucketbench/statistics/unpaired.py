"""How many times the values of one run are those of another, whose repeats have nothing in common."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy

from bucketbench.statistics.intervals import CONFIDENCE, Interval, same_values_obstacle

__all__ = ["unpaired_obstacle", "unpaired_ratio", "unpaired_ratio_interval"]


def unpaired_ratio(numerators: Sequence[float], denominators: Sequence[float]) -> float:
    """The median of all ratios of a numerator to a denominator. *Source*: Hodges and Lehmann (1963), of logarithms.

    Args:
        numerators: values above 0, at least one.
        denominators: likewise.
    """
    return float(numpy.exp(numpy.median(_log_ratios(numerators, denominators))))


def unpaired_obstacle(numerators: Sequence[float], denominators: Sequence[float]) -> str | None:
    """Why there is no interval of the ratio, None where there is one."""
    counts = len(numerators), len(denominators)
    if min(counts) == 0 or _rank(*counts) == 0:
        return (
            f"a statement at {CONFIDENCE:.0%} confidence needs 4 repeats of either run, or more of one than the other "
            f"lacks; got {counts[0]} and {counts[1]}"
        )
    return same_values_obstacle([*numerators]) or same_values_obstacle([*denominators])


def unpaired_ratio_interval(numerators: Sequence[float], denominators: Sequence[float]) -> Interval:
    """The interval of the ratio: every one that the exact rank-sum test does not reject.

    Its confidence is exact for any continuous distribution that is, in logarithms, the same on both sides but for its
    place. *Source*: Moses; Hollander and Wolfe, "Nonparametric Statistical Methods" (1999), section 4.3.

    Args:
        numerators: values above 0 of one run, in any order.
        denominators: of the other.

    Raises:
        ValueError: where ``unpaired_obstacle`` has a reason, or a value is not above 0.
    """
    obstacle = unpaired_obstacle(numerators, denominators)
    if obstacle is not None:
        raise ValueError(obstacle)
    ratios = _log_ratios(numerators, denominators)
    rank = _rank(len(numerators), len(denominators))
    low, high = numpy.exp((ratios[rank - 1], ratios[len(ratios) - rank]))
    tail = _tail(len(numerators), len(denominators), rank)
    return Interval(low=float(low), high=float(high), confidence=1 - 2 * tail)


def _log_ratios(numerators: Sequence[float], denominators: Sequence[float]) -> numpy.typing.NDArray[numpy.float64]:
    if min(*numerators, *denominators, math.inf) <= 0:
        raise ValueError("a ratio needs values above 0 on both sides")
    return numpy.sort(numpy.subtract.outer(numpy.log(numerators), numpy.log(denominators)).ravel())


def _rank(first: int, second: int) -> int:
    """The greatest rank of the ordered ratios that can be the interval's end; 0 where there is none."""
    rank = 0
    while 2 * _tail(first, second, rank + 1) <= 1 - CONFIDENCE:
        rank += 1
    return rank


def _tail(first: int, second: int, rank: int) -> float:
    """The chance that fewer than ``rank`` of the pairs have the first side's value below, if both sides are alike."""
    return sum(_ways(first, second)[:rank]) / math.comb(first + second, first)


def _ways(first: int, second: int) -> list[int]:
    """In how many orders so many pairs have the first side's value below, from 0 on (Mann and Whitney, 1947)."""
    ways = [1] + [0] * (first * second)
    for step in range(1, first + 1):  # the coefficients of the Gaussian binomial, factor by factor
        for place in range(len(ways) - 1, second + step - 1, -1):
            ways[place] -= ways[place - second - step]
        for place in range(step, len(ways)):
            ways[place] += ways[place - step]
    return ways
