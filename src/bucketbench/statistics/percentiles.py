"""Percentiles of a handful of numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

__all__ = ["least_operations", "median", "percentile", "percentile_figure"]


def least_operations(percent: float) -> int:
    """The fewest operations of which a percentile is given: 2 for the median, 20 for the 95th, 100 for the 99th.

    *Source*: of fewer than 100 / (100 - percent) values none lies beyond that percentile, so that it would be the
    maximum under another name.
    """
    return math.ceil(round(100 / (100 - percent), 6))  # of 99.9 the division gives a hair more than 1000


def percentile_figure(values: Sequence[float], percent: float) -> float | str:
    """A percentile of measured operations, or why there is none."""
    least = least_operations(percent)
    if len(values) < least:
        name = "a median" if percent == 50 else f"a {percent:g}th percentile"
        return f"{name} needs {least} operations, {len(values)} were measured"
    return percentile(values, percent)


def percentile(values: Iterable[float], percent: float) -> float:
    """The value below which ``percent`` percent of the values lie, interpolated linearly between its neighbours.

    *Source*: Hyndman and Fan, "Sample Quantiles in Statistical Packages" (1996), definition 7, which is also the
    default of ``numpy.percentile``.

    Args:
        values: at least one finite number, in any order.
        percent: from 0 (the smallest) to 100 (the largest).

    Raises:
        ValueError: without values, or for a percentage outside the range.
    """
    ordered = sorted(values)
    if not ordered:
        raise ValueError("a percentile needs at least one value, got none")
    if not 0 <= percent <= 100:
        raise ValueError(f"a percentage lies between 0 and 100, got {percent!r}")
    position = (len(ordered) - 1) * (percent / 100)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    fraction = position - below
    return ordered[below] + (ordered[above] - ordered[below]) * fraction


def median(values: Iterable[float]) -> float:
    """The middle of the values, or halfway between the two middle ones."""
    return percentile(values, 50)
