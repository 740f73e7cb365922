"""Boxes of a tensor: where they lie in memory, and whether they are all of it."""

from __future__ import annotations

import pytest
import torch

from torchbucket.dcp.huggingface.boxes import Box, TilingError, check_tiling, run_length, run_starts, slabs
from torchbucket.dcp.strides import contiguous_strides

CASES = [
    ((), ()),
    ((5,), (slice(1, 4),)),
    ((4, 6), (slice(1, 3), slice(0, 6))),
    ((4, 6), (slice(0, 4), slice(2, 5))),
    ((3, 4, 5), (slice(1, 2), slice(1, 3), slice(0, 5))),
    ((3, 4, 5), (slice(0, 3), slice(1, 3), slice(0, 5))),
    ((2, 1, 3, 2), (slice(0, 2), slice(0, 1), slice(1, 2), slice(0, 2))),
    ((3, 4), (slice(0, 3), slice(2, 2))),
]


@pytest.mark.parametrize(("shape", "index"), CASES)
def test_the_runs_of_a_box_are_its_elements_in_order(shape: tuple[int, ...], index: tuple[slice, ...]) -> None:
    whole = torch.arange(torch.Size(shape).numel()).reshape(shape)
    box = Box(tuple(part.start for part in index), tuple(part.stop - part.start for part in index))
    length = run_length(shape, box)
    found = [start + step for start in run_starts(shape, box).tolist() for step in range(length)]
    assert found == whole[index].reshape(-1).tolist()


@pytest.mark.parametrize("shape", [(), (0,), (7,), (3, 0), (3, 5), (4, 3, 5), (2, 2, 2, 2)])
@pytest.mark.parametrize("most", [1, 4, 7, 1000])
def test_slabs_follow_one_another(shape: tuple[int, ...], most: int) -> None:
    whole = torch.arange(torch.Size(shape).numel()).reshape(shape)
    found: list[int] = []
    for slab in slabs(shape, most):
        assert 0 < slab.size <= most
        found += whole[tuple(map(slice, slab.offsets, slab.stops))].reshape(-1).tolist()
    assert found == whole.reshape(-1).tolist()


def test_strides_are_torch_s() -> None:
    for shape in ((), (3,), (3, 4, 5), (3, 0, 5)):
        assert contiguous_strides(shape) == torch.empty(shape).stride()


@pytest.mark.parametrize(
    ("shape", "boxes"),
    [
        ((), [((), ())]),
        ((0, 4), []),
        ((6,), [((0,), (2,)), ((4,), (2,)), ((2,), (2,)), ((6,), (0,))]),
        ((4, 6), [((0, 0), (4, 2)), ((0, 2), (2, 4)), ((2, 2), (2, 4))]),
        ((1,), [((0,), (1,)), ((3,), (0,))]),  # what has no elements may be anywhere
    ],
)
def test_boxes_that_are_all_of_a_tensor(shape: tuple[int, ...], boxes: list[tuple[tuple[int, ...], ...]]) -> None:
    check_tiling(shape, [Box(*box) for box in boxes])


@pytest.mark.parametrize(
    ("shape", "boxes", "reason", "at_fault"),
    [
        ((6,), [((0,), (2,)), ((2,), (2,))], r"2 of the 6 elements .* such as that at \[4\]", [0, 1]),
        ((6,), [((0,), (3,)), ((2,), (4,))], r"\[0:3\] and \[2:6\] overlap", [0, 1]),
        ((6,), [((0,), (6,)), ((5,), (2,))], r"\[5:7\] is no part of the shape \[6\]", [1]),
        ((2, 2), [((0,), (2,))], "is no part", [0]),
        ((), [], r"1 of the 1 elements .* at \[\]", []),
        ((), [((), ()), ((), ())], "overlap", [0, 1]),
        ((4, 4), [((0, 0), (4, 2)), ((0, 2), (2, 2))], r"4 of the 16 elements .* at \[2, 2\]", [0, 1]),
        ((4, 4), [((0, 0), (3, 3)), ((3, 0), (1, 4)), ((0, 3), (2, 1))], r"1 of the 16 .* at \[2, 3\]", [0, 2, 1]),
        ((4, 4), [((0, 0), (3, 3)), ((2, 2), (2, 2)), ((0, 3), (2, 1))], r"\[0:3, 0:3\] and \[2:4, 2:4\]", [0, 1]),
    ],
)
def test_boxes_that_are_not(
    shape: tuple[int, ...], boxes: list[tuple[tuple[int, ...], ...]], reason: str, at_fault: list[int]
) -> None:
    with pytest.raises(TilingError, match=reason) as caught:
        check_tiling(shape, [Box(*box) for box in boxes])
    assert list(caught.value.boxes) == at_fault
