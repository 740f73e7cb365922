"""Percentiles of a handful of numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable

__all__ = ["P99_MINIMUM_OPERATIONS", "median", "percentile"]

P99_MINIMUM_OPERATIONS = 100
"""Fewest operations of which a 99th percentile is given.

*Source*: with fewer than 1 / (1 - 0.99) = 100 values no value lies beyond the 99th percentile, so it would be the
maximum under another name.
"""


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
