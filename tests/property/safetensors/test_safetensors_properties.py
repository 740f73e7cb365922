"""Any tensors, any slices: the same as the library and torch give."""

from __future__ import annotations

import itertools
import math

import pytest
import safetensors.torch
import torch
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from torchbucket import open_store
from torchbucket.safetensors import load_file, safe_open, save_file, save_sharded, stream
from torchbucket.safetensors.slicing import selection

_numbers = itertools.count()
DTYPES = [torch.float32, torch.bfloat16, torch.uint8, torch.bool, torch.int64, torch.complex64, torch.float8_e4m3fn]
SHAPES = st.lists(st.integers(0, 5), max_size=4).map(tuple)


def made(shape: tuple[int, ...], dtype: torch.dtype, seed: int) -> torch.Tensor:
    count = math.prod(shape) * dtype.itemsize
    bits = torch.randint(0, 2, (count,), dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))
    return bits.view(dtype).reshape(shape) if count else torch.empty(shape, dtype=dtype)


def bits(tensors: dict[str, torch.Tensor]) -> dict[str, object]:
    return {
        name: (
            tensor.dtype,
            tensor.shape,
            tensor.clone(memory_format=torch.contiguous_format).reshape(-1).view(torch.uint8).tolist(),
        )
        for name, tensor in tensors.items()
    }


TENSORS = st.dictionaries(
    st.text(max_size=6).filter(lambda name: name != "__metadata__" and name.isprintable()),
    st.builds(made, SHAPES, st.sampled_from(DTYPES), st.integers(0, 99)),
    max_size=8,
)


@settings(max_examples=examples(60))
@given(TENSORS, st.integers(1, 400), st.integers(1, 400))
def test_round_trips_both_ways(tensors, shard_bytes, budget_bytes):
    bucket = f"memory://properties-{next(_numbers)}"
    save_file(tensors, f"{bucket}/m", {"a": "b"})
    data = bytes(open_store(bucket).read("m").data)
    assert data == safetensors.torch.save(tensors, {"a": "b"})
    assert bits(load_file(f"{bucket}/m")) == bits(tensors)
    assert bits(dict(stream(f"{bucket}/m", budget_bytes=budget_bytes))) == bits(tensors)
    save_sharded(tensors, f"{bucket}/dir", max_shard_bytes=shard_bytes)
    assert bits(load_file(f"{bucket}/dir")) == bits(tensors)


def indices(shape: tuple[int, ...]) -> st.SearchStrategy[object]:
    """What may stand between the brackets of a tensor of that shape."""
    one = [
        st.one_of(
            st.slices(length).filter(lambda item: item.step is None or 0 < item.step < 9),
            *([st.integers(-length, length - 1)] if length else []),
        )
        for length in shape
    ]
    whole = st.tuples(*one)
    some = st.integers(0, len(one)).flatmap(lambda count: st.tuples(*one[:count]))
    last = st.integers(0, len(one)).flatmap(lambda first: st.tuples(st.just(...), *one[first:]))
    return st.one_of(whole, some, last, *one[:1])


@settings(max_examples=examples(150))
@given(st.data(), SHAPES, st.sampled_from(DTYPES), st.integers(0, 40), st.integers(1, 80))
def test_a_slice_is_what_indexing_gives(data, shape, dtype, gap_bytes, block_bytes):
    tensor = made(shape, dtype, 3)
    index = data.draw(indices(shape))
    bucket = f"memory://slices-{next(_numbers) % 4}"
    save_file({"before": torch.ones(3, dtype=dtype), "x": tensor}, f"{bucket}/m")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("torchbucket.safetensors.slicing.GAP_BYTES", gap_bytes)
        patch.setattr("torchbucket.safetensors.handle._BLOCK_BYTES", block_bytes)
        found = safe_open(f"{bucket}/m").get_slice("x")[index]
    expected = tensor.view(torch.uint8)[index] if dtype.itemsize == 1 else tensor[index]
    assert bits({"x": found if dtype.itemsize > 1 else found.view(torch.uint8)}) == bits({"x": expected})


@settings(max_examples=examples(150))
@given(st.data(), SHAPES, st.integers(0, 40), st.integers(1, 80))
def test_no_range_has_more_than_it_must(data, shape, gap_bytes, block_bytes):
    """Ranges rise, hold all that is wanted, and unwanted bytes only in gaps that are not worth a request."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("torchbucket.safetensors.slicing.GAP_BYTES", gap_bytes)
        selected = selection(shape, 2, data.draw(indices(shape)))
        blocks = list(selected.blocks(block_bytes))
    assert sum(math.prod(block.shape) for block in blocks) == selected.size
    end, position = 0, 0
    for block in blocks:
        assert end <= block.start < block.stop <= 2 * math.prod(shape)
        assert block.position == position
        wanted = 2 * math.prod(block.shape)
        assert wanted <= block.stop - block.start <= wanted + gap_bytes * (math.prod(block.shape) - 1)
        assert wanted == block.stop - block.start or block.stop - block.start <= max(block_bytes, 2)
        end, position = block.stop, position + math.prod(block.shape)
