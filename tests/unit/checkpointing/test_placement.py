"""Which rank has what: every number once, counted once, and marked as the whole is."""

from __future__ import annotations

import pytest
import torch

from bucketbench.checkpointing.party import Party
from bucketbench.checkpointing.placement import Placement, own_state, whole_tensors
from bucketbench.checkpointing.shapes import PUBLISHED_MODELS, Shapes
from bucketbench.checkpointing.state import StateSpec, make_state, mark_of, mark_state, state_bytes

SHAPES: Shapes = {"rows": (7, 40), "one": (1, 300), "bias": (200,), "scalar": (), "tied": "rows", "many": (9, 9000)}
CPU = torch.device("cpu")


@pytest.fixture
def spec(monkeypatch: pytest.MonkeyPatch) -> StateSpec:
    monkeypatch.setitem(PUBLISHED_MODELS, "vit-base", lambda: SHAPES)  # type: ignore[arg-type]  # it is a dictionary
    return StateSpec(model="vit-base", layers=None, tensors=None, size_bytes=None, seed=0)


def party(rank: int, size: int) -> Party:
    return Party(size=size, rank=rank, group=None, device="cpu")


@pytest.mark.parametrize("size", [1, 2, 3, 8])
def test_rows_of_all_ranks_are_the_whole_and_are_marked_as_it_is(spec: StateSpec, size: int) -> None:
    whole = make_state(spec)
    mark_state(whole, 0.25)
    parts = [own_state(Placement.SHARDED, spec, party(rank, size), CPU) for rank in range(size)]
    for part in parts:
        mark_state(part.tensors, 0.25, part.pieces)
    for name, tensor in whole.items():
        rows = [part.tensors[name] for part in parts]
        assert torch.equal(torch.cat(rows) if tensor.ndim else rows[0], tensor), name
    assert sum(part.counted_bytes for part in parts) == spec.total_bytes
    assert all(part.tensors["tied"] is part.tensors["rows"] for part in parts)
    assert {mark_of(part.tensors, part.pieces) for part in parts} == {0.25}


def test_each_ranks_rows_change_with_the_mark(spec: StateSpec) -> None:
    for rank in range(3):
        part = own_state(Placement.SHARDED, spec, party(rank, 3), CPU)
        before = {name: tensor.clone() for name, tensor in part.tensors.items()}
        mark_state(part.tensors, 0.5, part.pieces)
        assert [name for name in before if before[name].numel() and torch.equal(before[name], part.tensors[name])] == []


@pytest.mark.parametrize("size", [1, 2, 3, 8])
@pytest.mark.parametrize("placement", Placement)
def test_every_byte_is_counted_once_by_any_number_of_ranks(spec: StateSpec, placement: Placement, size: int) -> None:
    parts = [own_state(placement, spec, party(rank, size), CPU) for rank in range(size)]
    assert sum(part.counted_bytes for part in parts) == spec.total_bytes


@pytest.mark.parametrize("placement", [Placement.DEALT, Placement.REPLICATED])
def test_every_byte_is_counted_once_however_many_ranks_have_it(spec: StateSpec, placement: Placement) -> None:
    parts = [own_state(placement, spec, party(rank, 2), CPU) for rank in range(2)]
    named = [set(part.tensors) for part in parts]
    whole = make_state(spec)
    assert all(torch.equal(tensor, whole[name]) for part in parts for name, tensor in part.tensors.items())
    if placement is Placement.DEALT:
        assert (named[0] | named[1], named[0] & named[1]) == (set(SHAPES), set())
    else:
        assert named == [set(SHAPES)] * 2
        assert sum(part.counted_bytes for part in parts) == spec.total_bytes == state_bytes(make_state(spec))
        assert [part.counted_bytes == 0 for part in parts] == [False, True]


def test_a_rank_that_takes_no_part_has_nothing(spec: StateSpec) -> None:
    found = own_state(Placement.SHARDED, spec, party(2, 2), CPU)
    assert (found.tensors, found.counted_bytes, found.takes_part) == ({}, 0, False)


def test_without_a_mesh_tensors_are_whole(spec: StateSpec) -> None:
    tensors = make_state(spec)
    assert whole_tensors(tensors, spec.shapes, None) == tensors
