"""Where a series changed its level, and how seldom one is found in a series that did not."""

from __future__ import annotations

import math
import random

import pytest

from bucketbench.statistics import FEWEST_VALUES, change_points


def noisy(levels: list[float], *, seed: int, spread: float = 0.03) -> list[float]:
    chance = random.Random(seed)
    return [level * math.exp(chance.gauss(0, spread)) for level in levels]


def test_a_step_is_found_where_it_is_with_its_size() -> None:
    (found,) = change_points(noisy([100.0] * 9 + [80.0] * 7, seed=3))
    assert found.at == 9
    assert found.ratio == pytest.approx(0.8, rel=0.03)
    assert found.chance <= 0.01


def test_two_steps_are_two_changes_of_neighbouring_levels() -> None:
    first, second = change_points(noisy([100.0] * 8 + [150.0] * 9 + [90.0] * 8, seed=5))
    assert (first.at, second.at) == (8, 17)
    assert (first.ratio, second.ratio) == (pytest.approx(1.5, rel=0.03), pytest.approx(0.6, rel=0.03))


def test_the_fewest_values_that_tell_a_change() -> None:
    step = [1.0, 1.1, 1.05, 1.02, 2.0, 2.1, 2.05, 2.02]
    assert len(step) == FEWEST_VALUES
    (found,) = change_points(step)
    assert (found.at, found.chance) == (4, pytest.approx(2 * 24 * 24 / math.factorial(8)))
    assert change_points(step[:-1]) == []


def test_swapping_directions_of_time_inverts_the_change() -> None:
    values = noisy([1.0] * 6 + [2.0] * 6, seed=8)
    (forth,), (back,) = change_points(values), change_points(values[::-1])
    assert back.at == len(values) - forth.at
    assert back.ratio == pytest.approx(1 / forth.ratio)


def test_runs_that_are_alike_seldom_change() -> None:
    found = sum(bool(change_points(noisy([7.0] * 10, seed=seed, spread=0.1))) for seed in range(60))
    assert found <= 6  # of 60 at 5 %: 7 and more would come in 3 of 100 trials, and the seeds are fixed


@pytest.mark.parametrize("values", [[], [1.0], [5.0] * 30])
def test_nothing_changes_in_a_series_without_differences(values: list[float]) -> None:
    assert change_points(values) == []


def test_values_without_a_logarithm_are_refused() -> None:
    with pytest.raises(ValueError, match="above 0"):
        change_points([1.0, 0.0])
