"""The order of an epoch: a permutation, the same everywhere, and as good as drawn by lot."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchbucket import ConfigError
from torchbucket.datasets.epochs.order import EpochOrder


def order(count: int, *, seed: int = 0, epoch: int = 0, shuffle: bool = True) -> list[int]:
    return EpochOrder(count, shuffle=shuffle, seed=seed, epoch=epoch).positions(np.arange(count)).tolist()


@given(count=st.integers(0, 3000), seed=st.integers(), epoch=st.integers(0, 2**62))
def test_every_position_once(count, seed, epoch):
    assert sorted(order(count, seed=seed, epoch=epoch)) == list(range(count))


def test_the_values_are_those_of_every_platform_and_version():
    """States that users keep depend on them: changing them needs a new version of the state."""
    assert order(10) == [8, 9, 4, 3, 5, 1, 7, 0, 2, 6]
    large = EpochOrder(1_000_003, shuffle=True, seed=-7, epoch=3)
    assert large.positions(np.arange(5)).tolist() == [235737, 328003, 483965, 479480, 474285]
    huge = EpochOrder(5_000_000_000, shuffle=True, seed=2**70, epoch=1)
    assert huge.positions(np.array([0, 4_999_999_999])).tolist() == [2602834066, 3596100140]


def test_without_shuffle_the_order_is_the_listing_s():
    assert order(7, seed=3, epoch=9, shuffle=False) == list(range(7))


def test_seeds_and_epochs_give_different_orders():
    orders = {tuple(order(50, seed=seed, epoch=epoch)) for seed in (-1, 0, 1, 2**64) for epoch in (0, 1, 2)}
    assert len(orders) == 12


def test_places_may_be_asked_for_in_any_shape_and_part():
    whole = EpochOrder(1000, shuffle=True, seed=1, epoch=1)
    all_positions = whole.positions(np.arange(1000))
    assert whole.positions(np.arange(900, 1000, 7)).tolist() == all_positions[900::7].tolist()
    assert whole.positions(np.arange(1000).reshape(10, 100)).tolist() == all_positions.reshape(10, 100).tolist()
    assert whole.positions(np.arange(0)).tolist() == []


def test_small_orders_are_equally_likely():
    """Chi-squared of the 24 orders of four objects, fixed seeds: 23 degrees of freedom, 99.9 % lie below 49.7."""
    seeds = 2400
    counts = Counter(tuple(order(4, seed=seed)) for seed in range(seeds))
    expected = seeds / 24
    assert len(counts) == 24
    assert sum((count - expected) ** 2 / expected for count in counts.values()) < 49.7


def test_objects_are_as_likely_at_one_place_as_at_another():
    """The mean of chi-squared over its degrees of freedom is 1; its deviation here is 0.03."""
    count, seeds = 50, 750
    met = np.zeros((count, count))
    for seed in range(seeds):
        met[np.arange(count), order(count, seed=seed, epoch=5)] += 1
    expected = seeds / count
    assert ((met - expected) ** 2 / expected).sum() / (count - 1) ** 2 == pytest.approx(1, abs=0.12)


def test_neighbours_in_a_large_order_are_unrelated():
    positions = np.array(order(100_000))
    assert abs(np.corrcoef(positions[:-1], positions[1:])[0, 1]) < 0.02
    assert abs(np.corrcoef(positions, np.arange(100_000))[0, 1]) < 0.02


@pytest.mark.parametrize("wrong", [{"seed": 1.5}, {"seed": "1"}, {"seed": True}, {"epoch": -1}, {"epoch": 0.0}])
def test_what_is_no_number_is_refused(wrong):
    with pytest.raises(ConfigError, match="whole number"):
        order(3, **wrong)
