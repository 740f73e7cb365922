"""The safetensors layout: either side reads what the other wrote, ours, PyTorch's own, and plain safetensors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import safetensors
import safetensors.torch
import torch
import torch.distributed.checkpoint as dcp
from safetensors_saves import (
    INDEX,
    SHAPES,
    STORE,
    WAYS,
    copied_from_files,
    copied_to_files,
    flat,
    key,
    load,
    names,
    parts,
    save,
    state,
)
from saved_states import emptied, same
from simulated_ranks import load_part, save_parts
from torch.distributed.checkpoint import HuggingFaceStorageReader, HuggingFaceStorageWriter

from torchbucket import CheckpointError, ConfigError, NotFoundError
from torchbucket.dcp import (
    BucketHuggingFaceReader,
    BucketHuggingFaceWriter,
    BucketStorageWriter,
    checkpoints,
    consolidate,
    is_complete,
    latest,
    prune,
    verify,
)
from torchbucket.inspection import inspect_checkpoint
from torchbucket.safetensors import load_file
from torchbucket.store.memory import MemoryStore


@pytest.mark.parametrize("way", WAYS)
def test_a_state_comes_back(run: str, way: dict[str, Any]) -> None:
    save(state(), run, **way)
    assert same(load(state(), run), state())
    assert verify(run) == []


def test_whole_tensors_open_in_plain_safetensors(run: str, tmp_path: Path) -> None:
    mapping = {name: 1 + number % 3 for number, name in enumerate(flat(state()))}
    save(state(), run, mapping, **WAYS[2])
    directory = copied_to_files(run, tmp_path)
    index = json.loads((directory / INDEX).read_text())
    found = {}
    for number in (1, 2, 3):
        file = f"model-0000{number}-of-00003.safetensors"
        with safetensors.safe_open(directory / file, "pt") as opened:
            assert opened.metadata() == {"format": "pt"}
            assert {name for name, of in index["weight_map"].items() if of == file} == set(opened.keys())
            assert set(opened.keys()) == {name for name, of in mapping.items() if of == number}
            found.update({name: opened.get_tensor(name) for name in opened.keys()})  # noqa: SIM118
    wanted = flat(state())
    assert same({name: found[name] for name in wanted}, wanted)
    assert index["metadata"]["total_size"] == sum(tensor.nbytes for tensor in wanted.values())
    loaded = load_file(run)
    assert same({name: loaded[name] for name in wanted}, wanted)
    assert inspect_checkpoint(run).format == "safetensors"


# Of what PyTorch's own consolidation cannot: it takes floating point alone, and leaves scalars out.
PYTORCHS = {
    "weight": torch.arange(600.0).reshape(20, 30),
    "half": torch.arange(10).to(torch.bfloat16),
    "none": torch.empty(0, 3),
}


@pytest.mark.parametrize("way", WAYS)
def test_pytorch_reads_what_we_write(run: str, tmp_path: Path, way: dict[str, Any]) -> None:
    save(state()["views"], run, **way)
    into = emptied(state()["views"])
    dcp.load(into, storage_reader=HuggingFaceStorageReader(str(copied_to_files(run, tmp_path))), no_dist=True)
    assert same(into, state()["views"])


@pytest.mark.parametrize("way", WAYS)
def test_we_read_what_pytorch_writes(run: str, tmp_path: Path, way: dict[str, Any]) -> None:
    dcp.save(PYTORCHS, storage_writer=HuggingFaceStorageWriter(str(tmp_path), **way), no_dist=True)
    copied_from_files(tmp_path, run)
    assert same(load(PYTORCHS, run), PYTORCHS)


def test_pytorch_s_parts_are_consolidated_whatever_their_dtype(run: str, tmp_path: Path) -> None:
    saved = flat({"dtypes": state()["dtypes"], "odd": state()["odd"]})
    writer = HuggingFaceStorageWriter(str(tmp_path / "sharded"), save_distributed=True)
    (tmp_path / "sharded").mkdir()
    dcp.save(saved, storage_writer=writer, no_dist=True)
    copied_from_files(tmp_path, run)
    consolidate(run)
    loaded = load_file(run)
    assert same({name: loaded[name] for name in saved}, saved)
    assert verify(run) == []


def test_any_model_of_hugging_face_s_is_read(run: str) -> None:
    wanted = {"a": torch.arange(6.0), "b": torch.arange(4)}
    STORE.write(f"{key(run)}/model.safetensors", safetensors.torch.save(wanted))
    assert same(load(wanted, run), wanted)


def test_a_model_beside_a_checkpoint_of_the_other_layout_is_read_and_stays(run: str) -> None:
    wanted = {"a": torch.arange(6.0)}
    for step in (1, 2):
        dcp.save({**wanted, "epoch": step}, storage_writer=BucketStorageWriter(f"{run}/step-{step}"), no_dist=True)
        for name in ("model.safetensors", "model-00001-of-00001.safetensors"):
            STORE.write(f"{key(run)}/step-{step}/{name}", safetensors.torch.save({name: wanted["a"]}))
    found = {"model.safetensors": torch.zeros(6)}
    dcp.load(found, storage_reader=BucketHuggingFaceReader(f"{run}/step-1"), no_dist=True)
    assert torch.equal(found["model.safetensors"], wanted["a"])
    assert [found.is_complete for found in checkpoints(run)] == [True, True]
    prune(run, 1)
    assert names(f"{run}/step-1") == ["model-00001-of-00001.safetensors", "model.safetensors"]
    STORE.delete(f"{key(run)}/step-2/.metadata")
    assert latest(run) is None


@pytest.mark.parametrize("wanted", [torch.float32, torch.float64])
@pytest.mark.parametrize(("offsets", "shape"), [((1, 0), (3, 4)), ((0, 1), (5, 2)), ((2, 3), (1, 1)), ((5, 0), (0, 4))])
def test_any_part_is_read(run: str, offsets: tuple[int, int], shape: tuple[int, int], wanted: torch.dtype) -> None:
    whole, ranks = parts()
    save_parts(run, ranks, SHAPES)
    for into in (torch.zeros(shape, dtype=wanted), torch.zeros(shape[::-1], dtype=wanted).t()):
        load_part(run, "rows", offsets, into)
        (start, left), (rows, columns) = offsets, shape
        assert torch.equal(into, whole["rows"][start : start + rows, left : left + columns].to(wanted))


@pytest.mark.parametrize("columns", [1, 700])
def test_of_a_part_of_the_columns_little_more_is_read(run: str, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Long rows go each to its place, and what is between them is not asked for where it is longer."""
    whole = torch.arange(4 * 40_000.0).reshape(4, 40_000)
    save({"wide": whole}, run)
    asked: list[int] = []
    fill = MemoryStore._fill

    def noted(store: MemoryStore, read: Any, targets: Any, *rest: Any) -> Any:
        asked.extend(len(memory) for _, memory in targets)
        return fill(store, read, targets, *rest)

    monkeypatch.setattr(MemoryStore, "_fill", noted)
    into = torch.zeros(4, columns)
    load_part(run, "wide", (0, 20_000), into)
    assert torch.equal(into, whole[:, 20_000 : 20_000 + columns])
    assert asked == [4 * columns] * 4


def test_plain_values_are_refused_by_name(run: str) -> None:
    with pytest.raises(dcp.CheckpointException, match="tensors alone, and 'epoch' is none"):
        save({"x": torch.ones(1), "epoch": 3}, run)
    with pytest.raises(dcp.CheckpointException, match="complex128"):
        save({"x": torch.ones(1, dtype=torch.complex128)}, run)
    with pytest.raises(dcp.CheckpointException, match="no tensor to save"):
        save({}, run)
    assert not is_complete(run)


def test_a_tensor_without_a_file_is_refused(run: str) -> None:
    with pytest.raises(dcp.CheckpointException, match="no file for 1 of the 2 tensors, such as 'y'"):
        save({"x": torch.ones(1), "y": torch.ones(1)}, run, {"x": 1})
    assert names(run) == []
    _, ranks = parts()
    save_parts(run, ranks, SHAPES)
    with pytest.raises(CheckpointError, match="no file for 4 of the 5 tensors"):
        consolidate(f"{run}-whole", run, fqn_to_index_mapping={"rows": 1})
    assert names(f"{run}-whole") == []


def test_parts_are_not_saved_as_whole_tensors(run: str) -> None:
    _, ranks = parts()
    with pytest.raises(CheckpointError, match=r"2 ranks have something to write.*save_distributed=True"):
        save_parts(run, ranks, SHAPES, save_distributed=False)
    with pytest.raises(CheckpointError, match=r"'rows' with the shape \[5, 4\] this is a part, \[1, 4\]"):
        save_parts(run, ranks[:1], SHAPES, save_distributed=False)
    writer = BucketHuggingFaceWriter(run)
    with pytest.raises(CheckpointError, match="use_collectives"):
        writer.set_up_storage_writer(True, rank=0, use_collectives=False)


def test_wrong_settings(run: str) -> None:
    for options, message in (
        ({"thread_count": 0}, "thread_count"),
        ({"thread_count_consolidation": True}, "thread_count_consolidation"),
        ({"enable_consolidation": True}, "save_distributed"),
        ({"fqn_to_index_mapping": {"x": 0}}, "'x': 0"),
        ({"fqn_to_index_mapping": [1]}, "fqn_to_index_mapping"),
    ):
        with pytest.raises(ConfigError, match=message):
            BucketHuggingFaceWriter(run, **options)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="another directory"):
        consolidate(run, run)
    with pytest.raises(NotFoundError, match="neither"):
        consolidate(run)


def test_an_index_of_other_files_is_told(run: str) -> None:
    save({"x": torch.ones(1)}, run)
    index = json.loads(bytes(STORE.read(f"{key(run)}/{INDEX}").data))
    index["weight_map"]["y"] = index["weight_map"]["x"]
    STORE.write(f"{key(run)}/{INDEX}", json.dumps(index).encode())
    with pytest.raises(dcp.CheckpointException, match="'y' is in model-00001-of-00001"):
        load({"x": torch.ones(1)}, run)
