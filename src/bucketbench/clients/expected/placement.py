"""Which pieces of a checkpoint's tensors each rank has, writes and reads, for any number of ranks."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final

import torch

from bucketbench.checkpointing.placement import Placement
from bucketbench.checkpointing.shapes import Shape, Shapes
from torchbucket.dcp.item_layout import layout_of

__all__ = ["AlikeRanks", "File", "Item", "Place", "PlacedState"]

_DTYPE: Final = torch.float32  # that of the benchmarks' states
_GAP_BYTES: Final = 64 << 10  # as torchbucket.dcp.batches reads through


@dataclass(frozen=True, slots=True)
class Item:
    """A tensor, or a rank's piece of one.

    Args:
        name: of the tensor.
        whole: its shape.
        offsets: where in it the piece begins.
        size: the piece's shape.
        is_shard: whether it is a piece of a tensor that ranks share.
    """

    name: str
    whole: Shape
    offsets: Shape
    size: Shape
    is_shard: bool

    @property
    def payload_bytes(self) -> int:
        """The length of its elements."""
        return math.prod(self.size) * _DTYPE.itemsize

    @property
    def stored_bytes(self) -> int:
        """What it takes in a file: its elements, and what torch writes around them."""
        return _stored_bytes(self.size)


@lru_cache(maxsize=65_536)
def _stored_bytes(size: Shape) -> int:
    layout = layout_of(_DTYPE, size)
    assert layout is not None, "torch lays out any float32 tensor without its elements"
    return layout.size_bytes


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where in a file an item is.

    Args:
        offset: its first byte.
        length: in bytes.
        payload_bytes: how many of these are elements.
    """

    offset: int
    length: int
    payload_bytes: int


@dataclass(frozen=True, slots=True)
class File:
    """One file of a rank.

    Args:
        items: in their order.
    """

    items: tuple[Item, ...]

    @property
    def size_bytes(self) -> int:
        """Its length."""
        return sum(item.stored_bytes for item in self.items)

    @property
    def read_as_whole(self) -> bool:
        """Whether a rank that wants all items reads each byte: nothing is read of one that has no elements."""
        return all(item.payload_bytes for item in self.items)

    def places(self) -> Mapping[str, Place]:
        """Where each item is, by the tensor's name."""
        found, offset = {}, 0
        for item in self.items:
            found[item.name] = Place(offset, item.stored_bytes, item.payload_bytes)
            offset += item.stored_bytes
        return found

    def stretches(self, names: Sequence[str]) -> list[int]:
        """The lengths, in bytes, of what is read for some of the items: small gaps are read through."""
        places = self.places()
        lengths: list[int] = []
        start = stop = None
        for place in sorted(places[name] for name in names):
            if start is None or stop is None or place.offset - stop > _GAP_BYTES:
                if start is not None and stop is not None:
                    lengths.append(stop - start)
                start = place.offset
            stop = place.offset + place.length
        return [*lengths, stop - start] if start is not None and stop is not None else lengths


@dataclass(frozen=True, slots=True)
class AlikeRanks:
    """Ranks that follow one another and have pieces of the same shapes.

    Args:
        first: the number of the first.
        count: how many.
        files: what each writes.
    """

    first: int
    count: int
    files: tuple[File, ...]

    @property
    def stored_bytes(self) -> int:
        """What each writes."""
        return sum(file.size_bytes for file in self.files)


class PlacedState:
    """A state as ranks have and save it.

    Args:
        placement: which rank has what.
        shapes: of the tensors, or the name of the one that a tensor is tied to.
        world_size: how many ranks.
        thread_count: how many files each rank writes.
    """

    def __init__(self, placement: Placement, shapes: Shapes, world_size: int, *, thread_count: int = 1) -> None:
        self.placement = placement
        self.world_size = world_size
        self._shapes = {name: _shape_of(shapes, name) for name in shapes}
        self._thread_count = thread_count
        self._items: dict[int, list[Item]] = {}
        if placement is Placement.DEALT:
            for number, item in enumerate(self._whole_items()):
                self._items.setdefault(number % world_size, []).append(item)
        elif placement is Placement.REPLICATED:
            self._items = _deduplicated(self._whole_items(), world_size)

    @property
    def tensors(self) -> Mapping[str, Shape]:
        """The shapes of all tensors; a tied one has its own entry, as it is saved."""
        return self._shapes

    @property
    def planned_count(self) -> int:
        """How many items ranks propose to save: of what all have, each proposes all, and rows of none as well."""
        if self.placement is Placement.DEALT:
            return len(self._shapes)
        return self.world_size * len(self._shapes)

    @property
    def item_count(self) -> int:
        """How many items are saved, of all ranks."""
        return sum(ranks.count * sum(len(file.items) for file in ranks.files) for ranks in self.alike)

    @property
    def payload_bytes(self) -> int:
        """What the tensors hold together, a tied one as often as it is saved."""
        return sum(math.prod(shape) for shape in self._shapes.values()) * _DTYPE.itemsize

    @property
    def stored_bytes(self) -> int:
        """The length of all files together."""
        return sum(ranks.count * ranks.stored_bytes for ranks in self.alike)

    @property
    def held_bytes(self) -> int:
        """What the rank that has most holds of the state."""
        if self.placement is Placement.REPLICATED:
            return self.payload_bytes
        return max(sum(item.payload_bytes for file in ranks.files for item in file.items) for ranks in self.alike)

    @cached_property
    def alike(self) -> Sequence[AlikeRanks]:
        """All ranks, by what they write."""
        starts = sorted(set(self._starts()))
        stops = [*starts[1:], self.world_size]
        return [
            AlikeRanks(start, stop - start, self.files_of(start)) for start, stop in zip(starts, stops, strict=True)
        ]

    def _starts(self) -> Iterator[int]:
        """The ranks at which the shapes of pieces change."""
        yield 0
        if self.placement is not Placement.SHARDED:
            yield from range(min(len(self._items) + 1, self.world_size))  # those that write nothing come last
            return
        for shape in self._shapes.values():
            rows = shape[0] if shape else 1
            each = _rows_each(rows, self.world_size) if shape else 1
            first_without = -(-rows // each)
            yield from (rank for rank in (rows // each, first_without, first_without + 1) if rank < self.world_size)

    def files_of(self, rank: int) -> tuple[File, ...]:
        """What a rank writes."""
        items = list(self._pieces(rank)) if self.placement is Placement.SHARDED else self._items.get(rank, [])
        return tuple(File(tuple(group)) for group in _dealt(items, self._thread_count) if group)

    def _whole_items(self) -> list[Item]:
        return [Item(name, shape, (0,) * len(shape), shape, False) for name, shape in self._shapes.items()]

    def _pieces(self, rank: int) -> Iterator[Item]:
        """A rank's rows of every tensor, as ``torch.chunk`` shares them out.

        Rows of none are saved as well, once: PyTorch's planner takes those of all ranks for one item, and has a rank
        write it that has little to write; here it is the first of them.
        """
        for name, shape in self._shapes.items():
            if not shape:
                if rank == 0:
                    yield Item(name, shape, (), shape, False)
                continue
            each = _rows_each(shape[0], self.world_size)
            start, stop = (min(number * each, shape[0]) for number in (rank, rank + 1))
            if start == stop and rank > -(-shape[0] // each):
                continue
            rest = shape[1:]
            yield Item(name, shape, (start, *(0 for _ in rest)), (stop - start, *rest), True)

    def read_once(self) -> Mapping[int, Sequence[tuple[File, Sequence[str]]]]:
        """What each rank reads where one reads what all want: files, and of each the tensors that are read from it."""
        where = {
            name: (file, place)
            for ranks in self.alike
            for file in ranks.files
            for name, place in file.places().items()
            if place.payload_bytes
        }
        names = sorted(where)  # as torch.distributed.checkpoint.load hands a state to its planner
        read_bytes = [(0, rank) for rank in range(self.world_size)]
        found: dict[int, dict[int, tuple[File, list[str]]]] = {}
        for name in sorted(names, key=lambda name: where[name][1].length, reverse=True):
            file, place = where[name]
            size_bytes, rank = heapq.heappop(read_bytes)
            found.setdefault(rank, {}).setdefault(id(file), (file, []))[1].append(name)
            heapq.heappush(read_bytes, (size_bytes + place.length, rank))
        return {rank: list(files.values()) for rank, files in found.items()}


def _shape_of(shapes: Shapes, name: str) -> Shape:
    shape = shapes[name]
    return _shape_of(shapes, shape) if isinstance(shape, str) else shape


def _rows_each(rows: int, world_size: int) -> int:
    """How many rows ``torch.chunk`` gives each of so many ranks, but the last ones."""
    return max(1, -(-rows // world_size))


def _deduplicated(items: Sequence[Item], world_size: int) -> dict[int, list[Item]]:
    """Which rank writes each item that all have: the one with least to write, as PyTorch's planner chooses.

    *Source*: ``torch.distributed.checkpoint._dedup_save_plans``.
    """
    planned = [(0, rank) for rank in range(world_size)]
    chosen: dict[int, list[Item]] = {}
    for item in items:
        size_bytes, rank = heapq.heappop(planned)
        chosen.setdefault(rank, []).append(item)
        heapq.heappush(planned, (size_bytes + (item.payload_bytes or 1), rank))
    return chosen


def _dealt(items: list[Item], count: int) -> list[list[Item]]:
    """A rank's items by the files that it writes them to, as ``BucketStorageWriter`` deals them out."""
    if count == 1:
        return [items]
    groups: list[list[Item]] = [[] for _ in range(count)]
    sizes = [(0, group) for group in range(count)]
    for item in sorted(items, key=lambda item: item.payload_bytes, reverse=True):
        size_bytes, group = heapq.heappop(sizes)
        groups[group].append(item)
        heapq.heappush(sizes, (size_bytes + item.payload_bytes, group))
    return groups
