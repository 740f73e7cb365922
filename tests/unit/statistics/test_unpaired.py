"""Ratios of runs whose repeats have nothing in common."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from bucketbench.statistics.unpaired import _ways, unpaired_obstacle, unpaired_ratio, unpaired_ratio_interval


def test_the_ratio_is_the_median_of_all_ratios() -> None:
    assert unpaired_ratio([2.0, 4.0, 8.0], [1.0]) == pytest.approx(4.0)
    assert unpaired_ratio([1.0, 1.0], [2.0, 8.0]) == pytest.approx(math.sqrt(1 / 2 * 1 / 8))


@pytest.mark.parametrize("counts", [(4, 4), (6, 6), (3, 5), (8, 6)])
def test_the_confidence_is_that_of_all_orders(counts: tuple[int, int]) -> None:
    # Whichever of the values, all different, belong to the first side: as many intervals hold 1 as is said.
    first, second = counts
    values = np.exp(np.random.default_rng(1).normal(size=first + second))
    held = total = 0
    for chosen in itertools.combinations(range(first + second), first):
        rest = [place for place in range(first + second) if place not in chosen]
        interval = unpaired_ratio_interval([values[place] for place in chosen], [values[place] for place in rest])
        held += 1.0 in interval
        total += 1
    assert held / total == pytest.approx(interval.confidence)
    assert 0.95 <= interval.confidence < 1


def test_swapping_the_sides_inverts_the_interval() -> None:
    one, other = [1.0, 1.1, 1.3, 0.9, 1.2, 1.05], [2.0, 2.2, 1.9, 2.4, 2.1, 2.05]
    forth, back = unpaired_ratio_interval(one, other), unpaired_ratio_interval(other, one)
    assert (1 / back.high, 1 / back.low) == pytest.approx((forth.low, forth.high))
    assert 1.0 not in forth


@pytest.mark.parametrize("counts", [(0, 6), (3, 3), (2, 6), (1, 30)])
def test_too_few_repeats_have_no_interval(counts: tuple[int, int]) -> None:
    sides = [1.0] * counts[0], [2.0] * counts[1]
    assert "repeats" in str(unpaired_obstacle(*sides))
    with pytest.raises(ValueError, match="repeats"):
        unpaired_ratio_interval(*sides)


def test_values_must_be_above_0() -> None:
    with pytest.raises(ValueError, match="above 0"):
        unpaired_ratio_interval([1.0, 2.0, 3.0, 0.0], [1.0, 2.0, 3.0, 4.0])


@pytest.mark.parametrize("sides", [([5.0] * 6, [1.0, 1.1, 1.2, 1.3, 1.4, 1.5]), ([5.0] * 6, [1.0] * 6)])
def test_a_side_that_does_not_vary_decides_nothing(sides: tuple[list[float], list[float]]) -> None:
    for one, other in (sides, sides[::-1]):
        obstacle = unpaired_obstacle(one, other)
        assert obstacle == "all 6 repeats gave the same value, so that nothing tells how they vary"
        with pytest.raises(ValueError, match="gave the same value"):
            unpaired_ratio_interval(one, other)


def test_many_repeats_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    # All orders were counted anew for each rank: 50 repeats took minutes.
    asked = []

    def counted(first: int, second: int) -> list[int]:
        asked.append((first, second))
        return _ways(first, second)

    monkeypatch.setattr("bucketbench.statistics.unpaired._ways", counted)
    values = np.exp(np.random.default_rng(2).normal(size=51)).tolist()
    assert unpaired_obstacle(values[:26], values[26:]) is None
    interval = unpaired_ratio_interval(values[:26], values[26:])
    assert asked == [(25, 26)]
    assert 0.95 <= interval.confidence < 0.952
