"""How many times the values of one run are those of another, whose repeats have nothing in common."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

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
    if min(counts) == 0 or _rank(*counts)[0] == 0:
        return (
            f"a statement at {CONFIDENCE:.0%} confidence needs 4 repeats of each run, or 3 and 5, or 2 and 8; got "
            f"{counts[0]} and {counts[1]}"
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
    rank, tail = _rank(len(numerators), len(denominators))
    low, high = numpy.exp((ratios[rank - 1], ratios[len(ratios) - rank]))
    return Interval(low=float(low), high=float(high), confidence=1 - 2 * tail)


def _log_ratios(numerators: Sequence[float], denominators: Sequence[float]) -> numpy.typing.NDArray[numpy.float64]:
    if min(*numerators, *denominators, math.inf) <= 0:
        raise ValueError("a ratio needs values above 0 on both sides")
    return numpy.sort(numpy.subtract.outer(numpy.log(numerators), numpy.log(denominators)).ravel())


@lru_cache(maxsize=64)  # the same for every figure of two runs
def _rank(first: int, second: int) -> tuple[int, float]:
    """The greatest rank of the ordered ratios that can be the interval's end, 0 where there is none; and its tail.

    The tail is the chance that fewer than ``rank`` of the pairs have the first side's value below, if both are alike.
    """
    orders = math.comb(first + second, first)
    rank, below = 0, 0
    for ways in _ways(min(first, second), max(first, second)):
        if 2 * (below + ways) / orders > 1 - CONFIDENCE:
            break
        rank, below = rank + 1, below + ways
    return rank, below / orders


def _ways(first: int, second: int) -> list[int]:
    """In how many orders so many pairs have the first side's value below (Mann and Whitney, 1947).

    From none to half of the pairs: the other half is its mirror image.
    """
    ways = [1] + [0] * (first * second // 2)
    for step in range(1, first + 1):  # the coefficients of the Gaussian binomial, factor by factor
        for place in range(len(ways) - 1, second + step - 1, -1):
            ways[place] -= ways[place - second - step]
        for place in range(step, len(ways)):
            ways[place] += ways[place - step]
    return ways
