"""Which samples are compared whole: as many in each epoch, each once in as many epochs as the share says."""

from __future__ import annotations

import pickle
from collections import Counter
from itertools import pairwise

import pytest

from bucketbench.scenarios.dataset.rotation import EVERY_SAMPLE, Rotation


def due_in(rotation: Rotation, epoch: int, samples: int) -> list[int]:
    due = rotation.due(rotation.turn(epoch))
    return [position for position in range(samples) if due(position)]


@pytest.mark.parametrize(
    ("samples", "share", "each", "epochs"),
    [(2000, 0.125, 250, 8), (30, 0.1, 3, 10), (10, 0.125, 2, 5), (7, 0.125, 1, 7), (1, 0.125, 1, 1), (5, 1.0, 5, 1)],
)
def test_each_epoch_has_its_share_and_all_have_had_their_turn_in_time(
    samples: int, share: float, each: int, epochs: int
) -> None:
    rotation = pickle.loads(pickle.dumps(Rotation(samples, share=share, lot=3)))
    found = [due_in(rotation, epoch, samples) for epoch in range(2 * epochs)]
    assert {len(one) for one in found} == {each}
    for first in (0, 1, epochs):
        times = Counter(position for one in found[first : first + epochs] for position in one)
        assert len(times) == samples
    if each < samples:
        assert all(one != another for one, another in pairwise(found))


def test_whose_turn_it_is_is_drawn_by_lot() -> None:
    firsts = {tuple(due_in(Rotation(100, share=0.125, lot=lot), 0, 100)) for lot in range(20)}
    assert len(firsts) == 20
    assert due_in(Rotation(100, share=0.125, lot=5), 0, 100) == due_in(Rotation(100, share=0.125, lot=5), 0, 100)


def test_there_is_a_turn_of_all() -> None:
    due = Rotation(50, share=0.125, lot=1).due(EVERY_SAMPLE)
    assert all(due(position) for position in range(50))
