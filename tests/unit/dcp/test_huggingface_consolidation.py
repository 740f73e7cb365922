"""Parts of tensors become whole ones, and what is not exactly one tensor is named before anything is written."""

from __future__ import annotations

import weakref
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed.checkpoint as dcp
from safetensors_saves import (
    INDEX,
    SHAPES,
    STORE,
    copied_to_files,
    key,
    load,
    names,
    parts,
    shard,
)
from saved_states import emptied, same
from simulated_ranks import load_part, save_parts
from torch.distributed.checkpoint import HuggingFaceStorageReader

from torchbucket import CheckpointError, ChecksumError, NotFoundError
from torchbucket.dcp import (
    BucketHuggingFaceReader,
    consolidate,
    is_complete,
    verify,
)
from torchbucket.dcp.huggingface import making
from torchbucket.dcp.huggingface.outputs import segments
from torchbucket.safetensors import load_file
from torchbucket.store.memory import MemoryStore


@pytest.mark.parametrize("mapping", [None, {"rows": 1, "columns": 2, "whole": 2, "scalar": 1, "last": 3, "none": 4}])
def test_parts_of_several_ranks_become_whole(run: str, mapping: dict[str, int] | None, tmp_path: Path) -> None:
    whole, ranks = parts()
    save_parts(run, ranks, SHAPES, mapping, enable_consolidation=True, thread_count=2, thread_count_consolidation=2)
    assert {name: tensor.tolist() for name, tensor in load_file(run).items()} == {
        name: tensor.tolist() for name, tensor in whole.items()
    }
    for uri in (run, f"{run}/sharded"):
        assert same(load(whole, uri), whole)
    largest = 1 if mapping is None else 4
    assert f"sharded/shard-00001-model-00001-of-0000{largest}.safetensors" in names(run)
    assert f"sharded/shard-00003-model-00001-of-0000{largest}.safetensors" in names(run)  # the first rank's other rows
    into = emptied(whole)
    copied_to_files(run, tmp_path)
    dcp.load(into, storage_reader=HuggingFaceStorageReader(str(tmp_path / "sharded")), no_dist=True)
    assert same(into, whole)
    # By itself, to another place, by the numbers that the names of the parts tell.
    consolidate(f"{run}-other", f"{run}/sharded")
    assert sorted(name for name in names(f"{run}-other") if name.startswith("model-")) == sorted(
        name for name in names(run) if name.startswith("model-")
    )
    assert verify(run) == verify(f"{run}-other") == []


def test_elements_of_four_bits_are_two_in_one_of_torch_s(run: str) -> None:
    content = torch.arange(24, dtype=torch.uint8).reshape(4, 6)
    four = torch.float4_e2m1fn_x2
    ranks = [{"x": [((start, 0), content[start : start + 2].view(four))]} for start in (0, 2)]
    save_parts(run, ranks, {"x": (4, 6)}, enable_consolidation=True)
    found = load_file(run)["x"]
    assert found.dtype == four
    assert torch.equal(found.view(torch.uint8), content)
    for uri in (run, f"{run}/sharded"):
        into = torch.zeros(2, 6, dtype=torch.uint8)
        load_part(uri, "x", (1, 0), into.view(four))
        assert torch.equal(into, content[1:3])


def test_a_tensor_that_is_divided_along_rows_is_copied_by_the_store(run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = {"a": torch.arange(400.0).reshape(40, 10), "b": torch.arange(20), "c": torch.arange(60.0).reshape(6, 10)}
    monkeypatch.setattr(making, "_COPY_BYTES", 100)
    shapes = {name: tuple(tensor.shape) for name, tensor in whole.items()}
    cut = {"a": 13, "b": 18}
    ranks = [
        {name: [((0,) * tensor.ndim, tensor[: cut[name]])] for name, tensor in whole.items() if name in cut},
        {
            **{
                name: [((cut[name],) + (0,) * (tensor.ndim - 1), tensor[cut[name] :])]
                for name, tensor in whole.items()
                if name in cut
            },
            "c": [((0, 0), whole["c"])],
        },
    ]
    read: list[int] = []
    fill = MemoryStore._fill

    def noted(store: MemoryStore, asked: Any, targets: Any, *rest: Any) -> Any:
        read.extend(len(memory) for _, memory in targets)
        return fill(store, asked, targets, *rest)

    monkeypatch.setattr(MemoryStore, "_fill", noted)
    save_parts(run, ranks, shapes, enable_consolidation=True)
    assert read == [2 * 8]  # the end of "b", which is shorter than what is copied
    monkeypatch.undo()
    assert same(dict(sorted(load_file(run).items())), whole)
    assert verify(run) == []  # whose checksums follow from those of the parts


def test_of_a_file_that_is_made_some_blocks_are_in_memory(run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = torch.arange(60_000.0).reshape(300, 200)
    ranks = [{"x": [((0, start), whole[:, start : start + 50])]} for start in range(0, 200, 50)]
    save_parts(run, ranks, {"x": (300, 200)})
    held: list[int] = []
    alive: weakref.WeakSet[Any] = weakref.WeakSet()

    class Noted(making._Reading):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            alive.add(self)
            held.append(sum(one._memory.nbytes for one in alive))

    monkeypatch.setattr(making, "_Reading", Noted)
    monkeypatch.setattr(making, "segments", partial(segments, block_bytes=4096))
    consolidate(f"{run}-whole", run)
    assert len(held) == 60  # of five rows each
    assert max(held) == 8 * 4000
    assert torch.equal(load_file(f"{run}-whole")["x"], whole)


def refused(uri: str, wanted: dict[str, torch.Tensor], *messages: str) -> None:
    """Neither consolidated nor loaded, by an error that says what is wrong with what."""
    for act in (lambda: consolidate(f"{uri}-whole", uri), lambda: load(wanted, uri)):
        with pytest.raises((CheckpointError, dcp.CheckpointException)) as caught:
            act()
        for message in messages:
            assert message in str(caught.value)
    assert not names(f"{uri}-whole")


def test_parts_that_are_not_one_tensor_are_named(run: str) -> None:
    a = torch.arange(4.0)
    wanted = {"x": torch.zeros(8)}
    cases: dict[str, tuple[list[tuple[torch.Tensor, Any]], tuple[str, ...]]] = {
        "hole": ([(a, [0]), (a[:2], [6])], ("'x'", "2 of the 8 elements", "[4]", "shard-00002")),
        "overlap": ([(a, [0]), (torch.arange(6.0), [2])], ("'x'", "[0:4] and [2:8] overlap", "shard-00001")),
        "dtype": ([(a, [0]), (a.to(torch.float16), [4])], ("'x'", "F32", "F16", "shard-00002")),
        "dimensions": ([(a, [0]), (a.reshape(4, 1), [4, 0])], ("'x'", "shard-00002", "different saves")),
    }
    for name, (stored, messages) in cases.items():
        for number, (tensor, offsets) in enumerate(stored, start=1):
            shard(f"{run}/{name}", number, {"x": tensor}, {"x": {"saved_offsets": offsets}})
        refused(f"{run}/{name}", wanted, *messages)


def test_a_tensor_that_no_part_reaches_the_end_of_is_told_by_its_shape(run: str) -> None:
    info = {"x": {"saved_offsets": [0], "global_shape": [8]}}
    shard(run, 1, {"x": torch.arange(6.0)}, info)
    entry: Any = BucketHuggingFaceReader(run).read_metadata().state_dict_metadata["x"]
    assert tuple(entry.size) == (8,)
    refused(run, {"x": torch.zeros(8)}, "'x'", "2 of the 8 elements", "at [6]", "shard-00001")


@pytest.mark.parametrize(
    "info",
    [
        {},
        {"x": {}},
        {"x": {"saved_offsets": [0, 0]}},
        {"x": {"saved_offsets": [-1]}},
        {"x": {"saved_offsets": ["0"]}},
        {"x": {"saved_offsets": [0], "global_shape": [True]}},
        [1],
    ],
)
def test_what_a_header_says_of_its_parts_is_checked(run: str, info: Any) -> None:
    shard(run, 1, {"x": torch.arange(4.0)}, info)
    if info:  # else PyTorch has not written it
        refused(run, {"x": torch.zeros(4)}, "DCP_SHARDING_INFO" if info == [1] else "'x'")
    else:
        refused(run, {"x": torch.zeros(4)}, "saved_offsets of 'x'")


def test_a_cut_altered_or_missing_file_is_named_before_any_tensor_is_touched(run: str) -> None:
    whole, ranks = parts()
    name = "shard-00002-model-00001-of-00001.safetensors"

    def cut(content: bytes) -> bytes | None:
        return content[:-1]

    def altered(content: bytes) -> bytes | None:
        return content[:-1] + b"?"

    for change in (cut, altered, lambda _: None):
        save_parts(run, ranks, SHAPES)
        content = change(bytes(STORE.read(f"{key(run)}/{name}").data))
        if content is None:
            STORE.delete(f"{key(run)}/{name}")
        else:
            STORE.write(f"{key(run)}/{name}", content)
        into = emptied(whole)
        for act in (
            lambda: consolidate(f"{run}-whole", run),
            lambda into=into: dcp.load(into, storage_reader=BucketHuggingFaceReader(run), no_dist=True),
        ):
            with pytest.raises((CheckpointError, NotFoundError, dcp.CheckpointException), match=name):
                act()
        assert same(into, emptied(whole))
        assert not names(f"{run}-whole")
        assert is_complete(run) == (change is altered)


def test_bytes_that_change_on_their_way_are_noticed(run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, ranks = parts()
    save_parts(run, ranks, SHAPES)
    fill = MemoryStore._fill

    def damaged(store: MemoryStore, read: Any, targets: Any, *rest: Any) -> Any:
        future = fill(store, read, targets, *rest)
        targets[0][1][0] ^= 1
        return future

    with monkeypatch.context() as patch:
        patch.setattr(MemoryStore, "_fill", damaged)
        with pytest.raises(ChecksumError, match=r"shard-0000\d-model"):
            consolidate(f"{run}-whole", run)
    assert INDEX not in names(f"{run}-whole")
    assert same(load(whole, run), whole)
