"""Any tensors cut in any way into parts: consolidated they are the tensors again, and any part is read of either."""

from __future__ import annotations

import itertools
import json
import math
from functools import partial
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
import safetensors.torch
import torch
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.distributed.checkpoint.metadata import ChunkStorageMetadata
from torch.distributed.checkpoint.planner import LoadPlan
from torch.distributed.checkpoint.planner_helpers import create_read_items_for_chunk_list

from torchbucket import CheckpointError, open_store
from torchbucket.dcp import BucketHuggingFaceReader, consolidate, verify
from torchbucket.dcp.huggingface import making, part_reading
from torchbucket.dcp.huggingface.outputs import segments

_numbers = itertools.count()
DTYPES = [
    torch.float32,
    torch.bfloat16,
    torch.bool,
    torch.int64,
    torch.complex64,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
]

Part = tuple[tuple[int, ...], torch.Tensor]


def made(shape: tuple[int, ...], dtype: torch.dtype, seed: int) -> torch.Tensor:
    count = math.prod(shape) * dtype.itemsize
    content = torch.randint(0, 2, (count,), dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))
    return content.view(dtype).reshape(shape) if count else torch.empty(shape, dtype=dtype)


@st.composite
def parts(draw: st.DrawFn) -> tuple[torch.Tensor, list[Part]]:
    """A tensor, and what it is cut into: each cut divides one of the parts along one dimension."""
    shape = tuple(draw(st.lists(st.integers(0, 6), max_size=3)))
    whole = made(shape, draw(st.sampled_from(DTYPES)), draw(st.integers(0, 99)))
    found: list[Part] = [((0,) * whole.ndim, whole)]
    for _ in range(draw(st.integers(0, 5)) if whole.ndim else 0):
        offsets, tensor = found.pop(draw(st.integers(0, len(found) - 1)))
        along = draw(st.integers(0, whole.ndim - 1))
        at = draw(st.integers(0, tensor.shape[along]))
        first, second = tensor.narrow(along, 0, at), tensor.narrow(along, at, tensor.shape[along] - at)
        moved = tuple(offset + at * (dimension == along) for dimension, offset in enumerate(offsets))
        found += [(offsets, first), (moved, second)]
    return whole, found


STATES = st.dictionaries(st.sampled_from("abcde"), parts(), min_size=1, max_size=4)


def bits(tensor: torch.Tensor) -> tuple[object, ...]:
    return tensor.dtype, tensor.shape, tensor.contiguous().reshape(-1).view(torch.uint8).tolist()


def written(bucket: str, state: dict[str, tuple[torch.Tensor, list[Part]]], data: st.DataObject) -> None:
    """Deal the parts out to shards, as PyTorch would write them."""
    count = max(max(len(found) for _, found in state.values()), data.draw(st.integers(1, 6), label="shards"))
    shards: list[dict[str, Part]] = [{} for _ in range(count)]
    for name, (_, found) in state.items():
        order = data.draw(st.permutations(range(count)), label=f"shards of {name}")
        for number, part in zip(order, found, strict=False):
            shards[number][name] = part
    for number, shard in enumerate(shards):
        info = {
            name: {"saved_offsets": offsets, "global_shape": list(state[name][0].shape)}
            for name, (offsets, _) in shard.items()
        }
        tensors = {name: tensor.contiguous() for name, (_, tensor) in shard.items()}
        content = safetensors.torch.save(tensors, {"format": "pt", "DCP_SHARDING_INFO": json.dumps(info)})
        open_store(bucket).write(f"sharded/shard-{number + 1:05}-model-00001-of-00001.safetensors", content)


@settings(max_examples=examples(40))
@given(STATES, st.integers(1, 60), st.sampled_from([1, 20, 1 << 30]), st.data())
def test_parts_are_consolidated(
    state: dict[str, tuple[torch.Tensor, list[Part]]], block_bytes: int, copy_bytes: int, data: st.DataObject
) -> None:
    bucket = f"memory://consolidation-{next(_numbers)}"
    uri = f"{bucket}/model"
    written(f"{bucket}", state, data)
    files = {name: data.draw(st.integers(1, 3), label=f"file of {name}") for name in state}
    with (
        mock.patch.object(making, "segments", partial(segments, block_bytes=block_bytes)),
        mock.patch.object(making, "_COPY_BYTES", copy_bytes),
    ):
        consolidate(uri, f"{bucket}/sharded", fqn_to_index_mapping=files)
    store = open_store(bucket)
    index = json.loads(bytes(store.read("model/model.safetensors.index.json").data))
    assert set(index["weight_map"]) == set(state)
    for name, file in index["weight_map"].items():
        found = safetensors.torch.load(bytes(store.read(f"model/{file}").data))
        assert bits(found[name]) == bits(state[name][0])
    if copy_bytes > 60:  # else the checksums of what the store has copied are not known
        assert verify(uri) == []


@settings(max_examples=examples(40))
@given(STATES, st.sampled_from([1, 8, 512]), st.data())
def test_any_part_is_read(
    state: dict[str, tuple[torch.Tensor, list[Part]]], row_bytes: int, data: st.DataObject
) -> None:
    bucket = f"memory://consolidation-{next(_numbers)}"
    written(bucket, state, data)
    reader = BucketHuggingFaceReader(f"{bucket}/sharded")
    metadata = reader.read_metadata()
    reader.set_up_storage_reader(metadata, True)
    wanted: dict[str, tuple[tuple[slice, ...], torch.Tensor]] = {}
    items: list[Any] = []
    for name, (whole, _) in state.items():
        bounds = [sorted(data.draw(st.tuples(*[st.integers(0, length)] * 2))) for length in whole.shape]
        index = tuple(slice(start, stop) for start, stop in bounds)
        into = torch.zeros_like(whole[index])
        wanted[name] = index, into
        chunk = ChunkStorageMetadata(torch.Size(part.start for part in index), into.shape)
        entry: Any = metadata.state_dict_metadata[name]
        assert entry.size == whole.shape
        items += create_read_items_for_chunk_list(name, entry, [chunk])

    def resolve(item: Any) -> torch.Tensor:
        found = wanted[item.dest_index.fqn][1]
        for dimension, (start, length) in enumerate(zip(item.dest_offsets, item.lengths, strict=True)):
            found = found.narrow(dimension, start, length)
        return found

    planner: Any = SimpleNamespace(resolve_tensor=resolve, commit_tensor=lambda *_: None)
    with mock.patch.object(part_reading, "_ROW_BYTES", row_bytes):
        (plan,) = reader.prepare_global_plan([LoadPlan(items)])
        reader.read_data(plan, planner).value()
    for name, (index, into) in wanted.items():
        assert bits(into) == bits(state[name][0][index])


@settings(max_examples=examples(20))
@given(STATES, st.data())
def test_what_lacks_a_part_is_never_consolidated(
    state: dict[str, tuple[torch.Tensor, list[Part]]], data: st.DataObject
) -> None:
    bucket = f"memory://consolidation-{next(_numbers)}"
    name = data.draw(st.sampled_from(sorted(state)))
    whole, found = state[name]
    filled = [number for number, (_, tensor) in enumerate(found) if tensor.numel()]
    if not filled or len(found) < 2:
        return
    lost = found.pop(data.draw(st.sampled_from(filled)))
    written(bucket, state, data)
    with pytest.raises(CheckpointError, match=f"'{name}'") as caught:
        consolidate(f"{bucket}/model", f"{bucket}/sharded")
    assert f"{lost[1].numel()} of the {whole.numel()} elements" in str(caught.value)
    assert not list(open_store(bucket).list("model/"))
