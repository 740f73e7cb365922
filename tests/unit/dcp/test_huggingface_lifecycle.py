"""A checkpoint of the safetensors layout is there when its marker is, and only what we wrote of it is removed."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed.checkpoint as dcp
from safetensors_saves import (
    INDEX,
    MANIFEST,
    SHAPES,
    STORE,
    WAYS,
    key,
    load,
    names,
    parts,
    save,
    shard,
)
from saved_states import same
from simulated_ranks import planned, save_parts
from torch.distributed.checkpoint.metadata import Metadata

from torchbucket import CheckpointError, NotFoundError
from torchbucket.dcp import (
    BucketHuggingFaceWriter,
    checkpoints,
    consolidate,
    is_complete,
    latest,
    prune,
    verify,
)
from torchbucket.inspection import inspect_checkpoint
from torchbucket.store.memory import MemoryStore


def test_the_index_goes_first_and_comes_last(run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[str] = []
    put, delete = MemoryStore._put, MemoryStore._delete

    def noted_put(store: MemoryStore, written: str, data: bytes, condition: Any) -> Any:
        log.append(f"+{written.removeprefix(f'{key(run)}/')}{'' if condition is None else ' if'}")
        return put(store, written, data, condition)

    def noted_delete(store: MemoryStore, removed: str, condition: Any) -> None:
        log.append(f"-{removed.removeprefix(f'{key(run)}/')}")
        delete(store, removed, condition)

    monkeypatch.setattr(MemoryStore, "_put", noted_put)
    monkeypatch.setattr(MemoryStore, "_delete", noted_delete)
    saved = {"x": torch.ones(3)}
    for _ in range(2):
        log.clear()
        save(saved, run, **WAYS[2])
    assert log == [
        f"-{INDEX}",
        f"+{MANIFEST}",
        f"+sharded/{MANIFEST}",
        "+sharded/shard-00001-model-00001-of-00001.safetensors",
        f"+sharded/{MANIFEST} if",
        "+model-00001-of-00001.safetensors",
        f"+{MANIFEST} if",
        f"+{INDEX} if",
    ]


@pytest.mark.parametrize("way", WAYS)
def test_what_fails_leaves_no_checkpoint(run: str, way: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    saved = {"x": torch.ones(3), "y": torch.arange(4)}
    save(saved, f"{run}/step-1", **way)
    put = MemoryStore._put

    def failing(store: MemoryStore, written: str, *rest: Any) -> Any:
        if written.endswith(".safetensors"):
            raise OSError("no room")
        return put(store, written, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(MemoryStore, "_put", failing)
        for step in (1, 2):
            with pytest.raises(dcp.CheckpointException, match="no room"):
                save(saved, f"{run}/step-{step}", **way)
            assert not is_complete(f"{run}/step-{step}")
            with pytest.raises((NotFoundError, dcp.CheckpointException), match="not completed"):
                load(saved, f"{run}/step-{step}")
    assert latest(run) is None
    save(saved, f"{run}/step-2", **way)
    assert latest(run) == f"{run}/step-2"


@pytest.mark.parametrize("way", WAYS)
def test_a_checkpoint_is_kept_where_it_is_not_to_be_replaced(run: str, way: dict[str, Any]) -> None:
    saved = {"x": torch.ones(3)}
    save(saved, run, **way)
    with pytest.raises(dcp.CheckpointException, match="overwrite=False"):
        save({"x": torch.zeros(3)}, run, overwrite=False, **way)
    assert same(load(saved, run), saved)
    assert verify(run) == []
    shard(f"{run}-other/sharded", 1, saved, {"x": {"saved_offsets": [0]}})
    consolidate(f"{run}-other")
    with pytest.raises(CheckpointError, match="overwrite=False"):
        consolidate(f"{run}-other", overwrite=False)


@pytest.mark.parametrize("way", WAYS[:2])
def test_of_two_saves_at_the_same_time_neither_is_kept(run: str, way: dict[str, Any]) -> None:
    first, second = (BucketHuggingFaceWriter(run, **way) for _ in range(2))
    plan, planner = planned({"x": [((0,), torch.ones(3))]}, {"x": (3,)})
    (one,), (other,) = first.prepare_global_plan([plan]), second.prepare_global_plan([plan])
    results = [first.write_data(one, planner).value()], [second.write_data(other, planner).value()]
    for writer, of_writer in zip((first, second), results, strict=True):
        with pytest.raises(CheckpointError, match="another save"):
            writer.finish(Metadata({}), of_writer)
    assert not is_complete(run)
    first, second = (BucketHuggingFaceWriter(run, **way) for _ in range(2))
    (one,), (other,) = first.prepare_global_plan([plan]), second.prepare_global_plan([plan])
    second.finish(Metadata({}), [second.write_data(other, planner).value()])
    assert is_complete(run)
    with pytest.raises(CheckpointError, match="another save"):
        first.finish(Metadata({}), [first.write_data(one, planner).value()])
    assert not is_complete(run)


@pytest.mark.parametrize("way", WAYS)
def test_what_an_earlier_save_has_left_goes_and_nothing_else(run: str, way: dict[str, Any]) -> None:
    saved = {"x": torch.ones(3), "y": torch.arange(4)}
    STORE.write(f"{key(run)}/config.json", b"{}")
    save(saved, run, {"x": 1, "y": 2}, **way)
    STORE.write(f"{key(run)}/model-00009-of-00009.safetensors", b"of others")
    assert any("00002-of-00002" in name for name in names(run))
    save(saved, run, **way)
    assert not any("-of-00002" in name for name in names(run))
    assert {"config.json", "model-00009-of-00009.safetensors"} < set(names(run))
    assert same(load(saved, run), saved)


@pytest.mark.parametrize("way", WAYS)
def test_old_ones_are_pruned(run: str, way: dict[str, Any]) -> None:
    saved = {"x": torch.ones(3)}
    for step in (1, 2, 3):
        save(saved, f"{run}/step-{step}", **way)
    others = ["config.json", "model-00009-of-00009.safetensors"]
    for name in others:
        STORE.write(f"{key(run)}/step-1/{name}", b"{}")
    assert [(found.step, found.is_complete, found.is_ours) for found in checkpoints(run)] == [
        (step, True, True) for step in (1, 2, 3)
    ]
    assert [found.step for found in prune(run, 1)] == [1, 2]
    assert {name.partition("/")[0] for name in names(run)} == {"step-1", "step-3"}
    assert names(f"{run}/step-1") == others
    assert latest(run) == f"{run}/step-3"


def test_what_others_wrote_is_listed_and_stays(run: str) -> None:
    saved = {"x": torch.ones(3)}
    save(saved, f"{run}/step-1")
    STORE.delete(f"{key(run)}/step-1/{MANIFEST}")
    shard(f"{run}/step-2", 1, saved, {"x": {"saved_offsets": [0]}})
    dcp.save(saved, storage_writer=BucketHuggingFaceWriter(f"{run}/step-3"), no_dist=True)
    assert [(found.step, found.is_complete, found.is_ours) for found in checkpoints(run)] == [
        (1, True, False),
        (2, False, False),
        (3, True, True),
    ]
    assert prune(run, 1) == []
    assert same(load(saved, f"{run}/step-1"), saved)


def test_parts_are_inspected(run: str) -> None:
    whole, ranks = parts()
    save_parts(run, ranks, SHAPES)
    found = inspect_checkpoint(run)
    assert {tensor.name: tensor.shape for tensor in found.tensors} == SHAPES
    assert found.tensors_bytes == sum(tensor.nbytes for tensor in whole.values())
    assert len(found.files) == 3
