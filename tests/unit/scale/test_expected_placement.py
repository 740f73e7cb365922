"""Which rank has, writes and reads what is what PyTorch and the writer make of it."""

from __future__ import annotations

import io

import pytest
import torch
from torch.distributed.checkpoint._dedup_save_plans import dedup_save_plans
from torch.distributed.checkpoint.filesystem import _StorageInfo
from torch.distributed.checkpoint.metadata import ChunkStorageMetadata, MetadataIndex, TensorProperties
from torch.distributed.checkpoint.planner import (
    LoadItemType,
    LoadPlan,
    ReadItem,
    SavePlan,
    TensorWriteData,
    WriteItem,
    WriteItemType,
)

from bucketbench.checkpointing.placement import Placement
from bucketbench.checkpointing.shapes import transformer_shapes
from bucketbench.clients.expected.placement import Item, PlacedState
from torchbucket.dcp.sharing import dealt
from torchbucket.dcp.writer import _dealt as dealt_to_files

SHAPES = {**dict(list(transformer_shapes(2).items())), "scalar": (), "tied": "decoder.weight"}


def plan_of(items: list[Item]) -> SavePlan:
    return SavePlan([
        WriteItem(
            index=MetadataIndex(item.name, torch.Size(item.offsets)),
            type=WriteItemType.SHARD if item.is_shard else WriteItemType.TENSOR,
            tensor_data=TensorWriteData(
                chunk=ChunkStorageMetadata(offsets=torch.Size(item.offsets), sizes=torch.Size(item.size)),
                properties=TensorProperties(dtype=torch.float32),
                size=torch.Size(item.whole),
            ),
        )
        for item in items
    ])  # fmt: skip


def written(state: PlacedState, rank: int) -> list[str]:
    return [item.name for file in state.files_of(rank) for item in file.items]


@pytest.mark.parametrize("world_size", [1, 2, 7, 100])
def test_replicas_are_written_by_whom_pytorch_chooses(world_size: int) -> None:
    state = PlacedState(Placement.REPLICATED, SHAPES, world_size)
    whole = [Item(name, shape, (0,) * len(shape), shape, False) for name, shape in state.tensors.items()]
    plans = dedup_save_plans([plan_of(whole) for _ in range(world_size)])
    for rank, plan in enumerate(plans):
        assert written(state, rank) == [item.index.fqn for item in plan.items]


@pytest.mark.parametrize("world_size", [1, 2, 3, 8, 50, 700])
def test_rows_are_those_of_torch_chunk(world_size: int) -> None:
    state = PlacedState(Placement.SHARDED, SHAPES, world_size)
    found: dict[str, list[tuple[int, ...]]] = {name: [] for name in state.tensors}
    for rank in range(world_size):
        for file in state.files_of(rank):
            for item in file.items:
                found[item.name].append(item.size)
    for name, shape in state.tensors.items():
        if shape:
            chunks = [tuple(chunk.shape) for chunk in torch.empty(shape, device="meta").chunk(world_size)]
            rows_of_none = [(0, *shape[1:])] * (len(chunks) < world_size)
            assert found[name] == chunks + rows_of_none
        else:
            assert found[name] == [()]


def test_rows_of_none_are_one_item_to_pytorch() -> None:
    world_size = 12
    shapes = {"long": (100, 3), "short": (5, 2), "one": (1,)}
    plans = []
    for rank in range(world_size):
        starts = {name: min(rank * -(-shape[0] // world_size), shape[0]) for name, shape in shapes.items()}
        plans.append(plan_of([
            Item(
                name,
                shape,
                (starts[name], *(0 for _ in shape[1:])),
                (max(0, min(-(-shape[0] // world_size), shape[0] - starts[name])), *shape[1:]),
                True,
            )
            for name, shape in shapes.items()
        ]))  # fmt: skip
    state = PlacedState(Placement.SHARDED, shapes, world_size)
    assert sum(len(plan.items) for plan in dedup_save_plans(plans)) == state.item_count == 12 + 6 + 2
    assert sum(len(plan.items) for plan in plans) == state.planned_count


@pytest.mark.parametrize("placement", Placement)
@pytest.mark.parametrize("world_size", [1, 3, 40, 1000])
def test_ranks_that_are_taken_together_are_alike(placement: Placement, world_size: int) -> None:
    state = PlacedState(placement, SHAPES, world_size)
    alike = state.alike
    assert [ranks.first for ranks in alike] == [sum(ranks.count for ranks in alike[:n]) for n in range(len(alike))]
    assert sum(ranks.count for ranks in alike) == world_size
    for ranks in alike:
        for rank in {ranks.first, ranks.first + ranks.count // 2, ranks.first + ranks.count - 1}:
            sizes = [[item.size for item in file.items] for file in state.files_of(rank)]
            assert sizes == [[item.size for item in file.items] for file in ranks.files]
    held = sum(ranks.count * sum(item.payload_bytes for file in ranks.files for item in file.items) for ranks in alike)
    assert held == state.payload_bytes


@pytest.mark.parametrize("thread_count", [1, 3])
def test_files_are_those_of_the_writer(thread_count: int) -> None:
    state = PlacedState(Placement.SHARDED, SHAPES, 4, thread_count=thread_count)
    for rank in range(4):
        items = [item for file in PlacedState(Placement.SHARDED, SHAPES, 4).files_of(rank) for item in file.items]
        groups = [group for group in dealt_to_files(plan_of(items).items, thread_count) if group]
        assert [[item.name for item in file.items] for file in state.files_of(rank)] == [
            [item.index.fqn for item in group] for group in groups
        ]


@pytest.mark.parametrize("size", [(), (5,), (3, 4), (0, 7), (1, 1, 9)])
def test_a_piece_takes_in_its_file_what_torch_writes(size: tuple[int, ...]) -> None:
    file = io.BytesIO()
    torch.save(torch.zeros(size), file)
    assert Item("one", size, (0,) * len(size), size, False).stored_bytes == len(file.getvalue())


@pytest.mark.parametrize("world_size", [2, 3, 30])
def test_what_is_read_once_is_read_by_whom_the_reader_chooses(world_size: int) -> None:
    state = PlacedState(Placement.REPLICATED, SHAPES, world_size)
    places = {
        name: _StorageInfo(f"__{rank}_0.distcp", place.offset, place.length)
        for rank in range(world_size)
        for file in state.files_of(rank)
        for name, place in file.places().items()
    }
    items = [
        ReadItem(
            type=LoadItemType.TENSOR,
            dest_index=MetadataIndex(name),
            dest_offsets=torch.Size([0] * len(shape)),
            storage_index=MetadataIndex(name),
            storage_offsets=torch.Size([0] * len(shape)),
            lengths=torch.Size(shape),
        )
        for name, shape in sorted(state.tensors.items())  # as `load` hands them to the planner
    ]
    chosen = dealt([LoadPlan(items)] * world_size, lambda item: places[item.storage_index.fqn])
    expected: dict[int, set[str]] = {}
    for key, rank in chosen.items():
        expected.setdefault(rank, set()).add(key[1].fqn)
    found = {rank: {name for _, names in files for name in names} for rank, files in state.read_once().items()}
    assert found == expected


def test_gaps_are_read_through_or_asked_around() -> None:
    state = PlacedState(Placement.DEALT, {"a": (1000,), "b": (1000,), "c": (100_000,), "d": (10,)}, 1)
    (file,) = state.files_of(0)
    places = file.places()
    assert file.stretches(["a", "d"]) == [places["a"].length, places["d"].length]
    assert file.stretches(["a", "c"]) == [places["c"].offset + places["c"].length]
    assert file.stretches(["d", "c", "b", "a"]) == [file.size_bytes]
    assert file.stretches([]) == []
