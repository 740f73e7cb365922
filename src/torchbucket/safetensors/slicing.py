"""Which bytes of a tensor an index selects, and how they become the tensor that indexing gives."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import EllipsisType
from typing import TypeAlias

from torchbucket.store.protocol import GAP_BYTES

__all__ = ["Block", "Index", "Selection", "selection"]

Index: TypeAlias = int | slice | EllipsisType | tuple[int | slice | EllipsisType, ...]


@dataclass(frozen=True, slots=True)
class Block:
    """A range of the tensor's bytes, and what of it is selected: rows at equal distances.

    Args:
        start: first byte, counted from the tensor's.
        stop: end of the range.
        shape: of what the range holds of the selection.
        strides: the distance in bytes between neighbours of each dimension.
        position: how many selected elements come before.
    """

    start: int
    stop: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    position: int


@dataclass(frozen=True, slots=True)
class Selection:
    """What an index selects of a tensor.

    Args:
        shape: of the result.
        first: the byte of the tensor where the first selected element begins.
        counts: how many are selected of each dimension.
        strides: the distance in bytes between neighbours that are selected.
        itemsize: bytes of an element.
    """

    shape: tuple[int, ...]
    first: int
    counts: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int

    @property
    def size(self) -> int:
        """How many elements are selected."""
        return math.prod(self.counts)

    def blocks(self, most_bytes: int) -> Iterator[Block]:
        """Cut the selection into ranges, in the order of their bytes.

        What lies between two selected elements is in a range only where it is cheaper to read than to ask around.

        Args:
            most_bytes: bound on a range of which some bytes are not wanted; others are as long as they can be.
        """
        if not self.size:
            return
        spans = self._spans()
        outer = self._first_within(spans)
        dense = spans[outer] == math.prod(self.counts[outer:]) * self.itemsize
        # Without a dimension there is one element, which is dense.
        while not dense and outer + 1 < len(self.counts) and spans[outer + 1] > most_bytes:
            outer += 1
        rows = self.counts[outer] if outer < len(self.counts) else 1
        if not dense:
            rows = min(rows, 1 + max(0, most_bytes - spans[outer + 1]) // self.strides[outer])
        position = 0
        for places in itertools.product(*map(range, self.counts[:outer])):
            start = self.first + sum(map(operator.mul, places, self.strides))
            for block in self._cut(start, outer, rows, spans):
                yield Block(*block, position)
                position += math.prod(block[2])

    def _cut(
        self, start: int, outer: int, rows: int, spans: Sequence[int]
    ) -> Iterator[tuple[int, int, tuple[int, ...], tuple[int, ...]]]:
        if outer == len(self.counts):
            yield start, start + self.itemsize, (), ()
            return
        stride, left = self.strides[outer], self.counts[outer]
        while left:
            taken = min(rows, left)
            stop = start + (taken - 1) * stride + spans[outer + 1]
            yield start, stop, (taken, *self.counts[outer + 1 :]), self.strides[outer:]
            start += taken * stride
            left -= taken

    def _spans(self) -> list[int]:
        """From the first to the last selected byte within one element of the dimension before, for each dimension."""
        spans = [self.itemsize]
        for count, stride in zip(reversed(self.counts), reversed(self.strides), strict=True):
            spans.append((count - 1) * stride + spans[-1])
        return spans[::-1]

    def _first_within(self, spans: Sequence[int]) -> int:
        """The first dimension from which on no two neighbours are further apart than what is read rather than left."""
        outer = len(self.counts)
        while outer and (self.counts[outer - 1] == 1 or self.strides[outer - 1] - spans[outer] <= GAP_BYTES):
            outer -= 1
        return outer


def selection(shape: Sequence[int], itemsize: int, index: Index) -> Selection:
    """What ``tensor[index]`` takes of a contiguous tensor: whole numbers, slices and ``...``, as torch has them.

    Args:
        shape: the tensor's shape.
        itemsize: bytes of an element.
        index: what stands between the brackets.

    Raises:
        TypeError: anything else stands there.
        IndexError: it is out of range, or of more dimensions than the tensor has.
        ValueError: a slice with a step below 1.
    """
    items = _expanded(index if isinstance(index, tuple) else (index,), len(shape))
    first = 0
    result: list[int] = []
    counts: list[int] = []
    strides: list[int] = []
    # From the last dimension on, since a file of anybody's may have very many.
    distances = list(itertools.accumulate(reversed(shape), operator.mul, initial=itemsize))[-2::-1]
    for dimension, (item, length, stride) in enumerate(zip(items, shape, distances, strict=True)):
        if isinstance(item, slice):
            if item.step is not None and operator.index(item.step) < 1:
                raise ValueError(f"a slice's step must be at least 1, as in torch; got {item.step}")
            taken = range(length)[item]
            result.append(len(taken))
        else:
            if not -length <= item < length:
                raise IndexError(f"index {item} is out of range for dimension {dimension}, which has {length}")
            taken = range(length)[item : item + 1] if item != -1 else range(length)[-1:]
        first += taken.start * stride
        counts.append(len(taken))
        strides.append(taken.step * stride)
    return Selection(tuple(result), first, tuple(counts), tuple(strides), itemsize)


def _expanded(items: Sequence[object], dimensions: int) -> list[int | slice]:
    """One item for each dimension."""
    whole = slice(None)
    expanded: list[int | slice] = []
    ellipses = sum(item is ... for item in items)
    given = len(items) - ellipses
    if given > dimensions:
        raise IndexError(f"{given} indices for a tensor of {dimensions} dimensions")
    if ellipses > 1:
        raise IndexError("an index can have one ... only")
    for item in items:
        if item is ...:
            expanded += [whole] * (dimensions - given)
        elif isinstance(item, slice):
            expanded.append(item)
        elif isinstance(item, bool) or not hasattr(item, "__index__"):
            raise TypeError(
                f"whole numbers, slices and ... select a part of a stored tensor; got {type(item).__name__}: load the "
                "tensor, and index that"
            )
        else:
            expanded.append(operator.index(item))
    return expanded + [whole] * (dimensions - len(expanded))
