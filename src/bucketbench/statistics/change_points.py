"""Where a series of runs changed its level: by which run, and how surely, without a distribution being assumed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy
import numpy.typing

__all__ = ["FEWEST_VALUES", "ChangePoint", "change_points"]

FEWEST_VALUES: Final = 8
"""Fewest values in which a change can be told.

*Source*: of 8 values in two levels of 4, 2 * 4! * 4! of the 8! orders, 2.9 %, tell the levels apart as well; of 7
values 5.7 %.
"""

_LEAST_SIDE: Final = 2  # values on either side of a change: one alone may be an outlier
_CHANCE: Final = 0.05
_DRAWN: Final = 9_999  # orders, where there are more; the chance is told to about 0.002
_SEED: Final = 0

_Floats = numpy.typing.NDArray[numpy.float64]


@dataclass(frozen=True, kw_only=True, slots=True)
class ChangePoint:
    """One change of level.

    Args:
        at: index of the first value of the new level.
        ratio: how many times the level before the new one is: of geometric means, from the change before to the next.
        chance: in how many of all orders of the values around it a change as clear would be found, at most 0.05.
    """

    at: int
    ratio: float
    chance: float


def change_points(values: Sequence[float]) -> list[ChangePoint]:
    """Find the changes of a series, in its order.

    The split with the greatest difference of mean logarithms, weighted by the lengths of its sides, is a change where
    at most 5 % of the orders of the same values have a split as great; then both sides are searched likewise. So in a
    series of runs that are alike, whatever their distribution, a change is found by chance once in 20 at most.
    *Source*: binary segmentation (Scott and Knott, 1974) by a permutation test, as in Matteson and James (2014).

    Args:
        values: above 0, one a run, in order of time.

    Raises:
        ValueError: a value is not above 0.
    """
    if min(values, default=1.0) <= 0:
        raise ValueError("a series needs values above 0")
    if len(values) < FEWEST_VALUES:
        return []
    logarithms = numpy.log(numpy.asarray(values, dtype=float))
    found = sorted(_within(logarithms, 0, len(values)))
    edges = [0, *(at for at, _ in found), len(values)]
    levels = [float(numpy.mean(logarithms[start:stop])) for start, stop in itertools.pairwise(edges)]
    return [
        ChangePoint(at=at, ratio=math.exp(levels[place + 1] - levels[place]), chance=chance)
        for place, (at, chance) in enumerate(found)
    ]


def _within(logarithms: _Floats, start: int, stop: int) -> list[tuple[int, float]]:
    own = logarithms[start:stop]
    if len(own) < FEWEST_VALUES:
        return []
    contrasts = _contrasts(own[numpy.newaxis])[0]
    place = int(numpy.argmax(contrasts))
    # Sums of the same numbers in another order may differ in their last digits.
    chance = _chance(own, float(contrasts[place]) * (1 - 1e-9))
    if chance > _CHANCE:
        return []
    at = start + _LEAST_SIDE + place
    return [*_within(logarithms, start, at), (at, chance), *_within(logarithms, at, stop)]


def _contrasts(rows: _Floats) -> _Floats:
    """How great the difference of each split of each row is, from that after the first ``_LEAST_SIDE`` values on."""
    count = rows.shape[1]
    lengths = numpy.arange(_LEAST_SIDE, count - _LEAST_SIDE + 1)
    sums = numpy.cumsum(rows, axis=1)
    left = sums[:, lengths - 1]
    differences = left / lengths - (sums[:, -1:] - left) / (count - lengths)
    contrasts: _Floats = numpy.abs(differences) * numpy.sqrt(lengths * (count - lengths) / count)
    return contrasts


def _chance(own: _Floats, contrast: float) -> float:
    """The share of orders, this one among them, with a split as great; 1 where all values are the same."""
    if float(numpy.ptp(own)) == 0.0:
        return 1.0
    if math.factorial(len(own)) <= 8 * _DRAWN:  # all orders of 8
        orders = numpy.array(list(itertools.permutations(own)))
        return float(numpy.mean(_contrasts(orders).max(axis=1) >= contrast))
    generator = numpy.random.default_rng(_SEED)
    drawn = generator.permuted(numpy.broadcast_to(own, (_DRAWN, len(own))), axis=1)
    return (1 + int(numpy.sum(_contrasts(drawn).max(axis=1) >= contrast))) / (1 + _DRAWN)
