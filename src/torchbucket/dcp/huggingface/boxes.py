"""Parts of a tensor as boxes of its indices: how they lie in its memory, and whether they are all of it."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from torchbucket.dcp.strides import contiguous_strides

__all__ = ["Box", "TilingError", "check_tiling", "run_length", "run_starts", "slabs"]

Starts: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Box:
    """The elements whose index in each dimension is in ``[offset, offset + length)``.

    Args:
        offsets: where it begins.
        shape: how long it is.
    """

    offsets: tuple[int, ...]
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """How many elements it has."""
        return math.prod(self.shape)

    @property
    def stops(self) -> tuple[int, ...]:
        """Where it ends."""
        return tuple(offset + length for offset, length in zip(self.offsets, self.shape, strict=True))

    def common(self, other: Box) -> Box | None:
        """What is in both; None where nothing is."""
        offsets = tuple(map(max, self.offsets, other.offsets))
        shape = tuple(min(stops) - offset for *stops, offset in zip(self.stops, other.stops, offsets, strict=True))
        return Box(offsets, shape) if all(length > 0 for length in shape) else None

    def __str__(self) -> str:
        return "[" + ", ".join(f"{offset}:{stop}" for offset, stop in zip(self.offsets, self.stops, strict=True)) + "]"


class TilingError(ValueError):
    """Boxes that are not all of a tensor, each element once.

    Args:
        reason: what is wrong.
        boxes: the positions of those that are at fault.
    """

    def __init__(self, reason: str, boxes: Sequence[int]) -> None:
        super().__init__(reason)
        self.boxes = boxes


def run_length(shape: Sequence[int], box: Box) -> int:
    """How many elements of a box lie one after another in a contiguous tensor of a shape, at least."""
    run = 1
    for length, of_box in zip(reversed(shape), reversed(box.shape), strict=True):
        run *= of_box
        if of_box != length:
            break
    return run


def run_starts(shape: Sequence[int], box: Box) -> Starts:
    """Where in a contiguous tensor of a shape the runs of a box begin, in elements and in ascending order."""
    strides = contiguous_strides(shape)
    left = box.size // max(run_length(shape, box), 1)
    starts: Starts = np.array([sum(map(operator.mul, box.offsets, strides))], dtype=np.int64)
    for length, stride in zip(box.shape, strides, strict=True):
        if left == 1:
            break
        starts = (starts[:, None] + np.arange(length, dtype=np.int64) * stride).reshape(-1)
        left //= max(length, 1)
    return starts


def slabs(shape: Sequence[int], most: int) -> Iterator[Box]:
    """Divide a tensor into boxes of neighbours in memory, in their order, of at most so many elements."""
    if not math.prod(shape):
        return
    inner = len(shape)
    size = 1
    while inner and size * shape[inner - 1] <= most:
        inner -= 1
        size *= shape[inner]
    if not inner:
        yield Box((0,) * len(shape), tuple(shape))
        return
    cut = inner - 1
    rows = max(1, most // size)
    for places in np.ndindex(*shape[:cut]):
        for start in range(0, shape[cut], rows):
            yield Box(
                (*places, start, *(0 for _ in shape[inner:])),
                (*(1 for _ in places), min(rows, shape[cut] - start), *shape[inner:]),
            )


def check_tiling(shape: Sequence[int], boxes: Sequence[Box]) -> None:
    """Raise unless boxes are all of a tensor, each element once; those without elements may be anywhere.

    Raises:
        TilingError: an element is in none, or in two, or a box reaches beyond the tensor.
    """
    for position, box in enumerate(boxes):
        if len(box.shape) != len(shape) or (box.size and any(map(operator.gt, box.stops, shape))):
            raise TilingError(f"{box} is no part of the shape {list(shape)}", [position])
    filled = [position for position, box in enumerate(boxes) if box.size]
    filled.sort(key=lambda position: boxes[position].offsets)
    if (pair := _overlapping(boxes, filled)) is not None:
        first, second = (boxes[position] for position in pair)
        raise TilingError(f"{first} and {second} overlap", pair)
    found = sum(boxes[position].size for position in filled)
    size = math.prod(shape)
    if found != size:
        raise TilingError(
            f"{size - found:,} of the {size:,} elements of the shape {list(shape)} are in none, "
            f"such as that at {list(_first_missing(shape, [boxes[position] for position in filled]))}",
            filled,
        )


def _overlapping(boxes: Sequence[Box], order: Sequence[int]) -> tuple[int, int] | None:
    """Two boxes that have an element in common; ``order`` sorts them by their offsets."""
    if len(order) < 2:
        return None
    starts = np.array([boxes[position].offsets for position in order], dtype=np.int64)
    stops = np.array([boxes[position].stops for position in order], dtype=np.int64)
    if not starts.shape[1]:
        return order[0], order[1]
    varying = np.flatnonzero((starts != starts[0]).any(axis=0) | (stops != stops[0]).any(axis=0))
    if len(varying) == 1:  # divided along one dimension, as nearly always
        (along,) = varying
        wrong = np.flatnonzero(starts[1:, along] < stops[:-1, along])
        return (order[wrong[0]], order[wrong[0] + 1]) if len(wrong) else None
    for row in range(len(order) - 1):
        both = ((starts[row + 1 :] < stops[row]) & (stops[row + 1 :] > starts[row])).all(axis=1)
        if both.any():
            return order[row], order[row + 1 + int(both.argmax())]
    return None


def _first_missing(shape: Sequence[int], boxes: Sequence[Box]) -> tuple[int, ...]:
    """The first element, in the order of memory, that is in none of the boxes."""
    place: tuple[int, ...] = ()
    for dimension in range(len(shape)):
        cuts = sorted({0, *(edge for box in boxes for edge in (box.offsets[dimension], box.stops[dimension]))})
        size = math.prod(shape[dimension + 1 :])
        for start in cuts:
            within = [box for box in boxes if box.offsets[dimension] <= start < box.stops[dimension]]
            if start < shape[dimension] and sum(math.prod(box.shape[dimension + 1 :]) for box in within) < size:
                place, boxes = (*place, start), within
                break
    return place
