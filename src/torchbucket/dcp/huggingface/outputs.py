"""The files of whole tensors that shards are consolidated into, and where each of their bytes comes from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np

from torchbucket.config import KIB, MIB
from torchbucket.dcp.huggingface.boxes import Box, run_length, run_starts, slabs
from torchbucket.dcp.huggingface.names import file_name, numbers_in_names, numbers_of
from torchbucket.dcp.huggingface.pieces import Piece, Pieces, StoredPieces
from torchbucket.dcp.strides import contiguous_strides
from torchbucket.safetensors.dtypes import DTYPES
from torchbucket.safetensors.header import header_bytes

__all__ = ["Block", "Copy", "Fill", "Fragment", "OutputFile", "Placement", "Segment", "plan_outputs", "segments"]

# What is read and written at once, where the server does not copy: a part's usual length.
BLOCK_BYTES: Final = 8 * MIB
# Runs that are longer on average are read by themselves, straight to where they belong.
_RUN_BYTES: Final = 64 * KIB


@dataclass(frozen=True, slots=True)
class OutputFile:
    """A file of whole tensors that is to be made.

    Args:
        name: what it is to be called.
        header: its first bytes.
        tensors: what is in it, in the order of the bytes.
    """

    name: str
    header: bytes
    tensors: Sequence[StoredPieces]

    @property
    def size_bytes(self) -> int:
        """Its length."""
        return len(self.header) + sum(tensor.size_bytes for tensor in self.tensors)


@dataclass(frozen=True, slots=True)
class Fragment:
    """Bytes of a stored piece.

    Args:
        tensor: the position of its tensor in the file that is made.
        piece: the piece.
        start: where in the piece's file the bytes begin.
        stop: where they end.
    """

    tensor: int
    piece: Piece
    start: int
    stop: int

    @property
    def is_whole(self) -> bool:
        """Whether they are all of the piece."""
        return (self.start, self.stop) == (self.piece.start, self.piece.stop)


@dataclass(frozen=True, slots=True)
class Copy:
    """A range of one stored file that is to be appended as it is.

    Args:
        fragments: what it consists of, one after another in either file.
    """

    fragments: Sequence[Fragment]


@dataclass(frozen=True, slots=True)
class Placement:
    """Where in a block elements go that are not neighbours there.

    Args:
        itemsize: bytes of an element.
        start: where in the block the slab of the tensor begins that they are in, in bytes.
        shape: the slab's.
        box: the elements in the slab.
    """

    itemsize: int
    start: int
    shape: tuple[int, ...]
    box: Box


@dataclass(frozen=True, slots=True)
class Fill:
    """What is to be read for a block.

    Args:
        fragment: the bytes.
        place: where in the block they go: an offset in bytes, or a placement.
    """

    fragment: Fragment
    place: int | Placement


@dataclass(slots=True)
class Block:
    """Bytes that are put together in memory and appended.

    Args:
        size_bytes: how many.
        fills: what is read for them.
        spans: the tensor that the next bytes belong to and how many those are, one after another.
    """

    size_bytes: int = 0
    fills: list[Fill] = field(default_factory=list)
    spans: list[tuple[int, int]] = field(default_factory=list)


Segment: TypeAlias = Copy | Block


def plan_outputs(pieces: Pieces, mapping: Mapping[str, int] | None, uri: str) -> list[OutputFile]:
    """Say which files are to be made of pieces.

    Args:
        pieces: what is stored.
        mapping: the number of each tensor's file; None means what the names of the shards tell, else one file.
        uri: where the pieces are, for messages.

    Raises:
        CheckpointError: the pieces of a tensor are not all of it, or overlap; a tensor without a number.
    """
    for tensor in pieces.tensors.values():
        tensor.check_whole(uri)
    told = None
    if mapping is None:
        told = numbers_in_names({name: file.header.tensors for name, file in pieces.files.items()})
    numbers, largest = told or numbers_of(mapping, pieces.tensors, uri)
    by_number: dict[int, list[StoredPieces]] = {}
    for name, number in numbers.items():
        by_number.setdefault(number, []).append(pieces.tensors[name])
    return [_output(file_name(number, largest), by_number[number]) for number in sorted(by_number)]


def segments(output: OutputFile, least_copy_bytes: int | None, block_bytes: int = BLOCK_BYTES) -> Iterator[Segment]:
    """Where the bytes of a file come from that follow its header, in their order.

    Args:
        output: the file.
        least_copy_bytes: the shortest range that is appended as it is; None where none is.
        block_bytes: the most that is put together at once.
    """
    builder = _Builder(least_copy_bytes, block_bytes)
    for position, tensor in enumerate(output.tensors):
        if not tensor.size_bytes:
            continue
        filled = [piece for piece in tensor.pieces if piece.box.size]
        lengths = [run_length(tensor.shape, piece.box) for piece in filled]
        runs = sum(piece.box.size // length for piece, length in zip(filled, lengths, strict=True))
        if runs <= max(len(filled), tensor.size_bytes // _RUN_BYTES):
            for fragment in _in_order(position, tensor, filled, lengths):
                yield from builder.add(fragment)
        else:
            yield from builder.end_range()
            for slab in slabs(tensor.shape, max(1, block_bytes // tensor.dtype.itemsize)):
                yield from builder.add_slab(position, tensor, filled, slab)
    yield from builder.end()


def _output(name: str, tensors: Sequence[StoredPieces]) -> OutputFile:
    in_order = sorted(tensors, key=lambda tensor: (-DTYPES[tensor.kind].rank, tensor.name))
    header = header_bytes(
        ((tensor.name, tensor.kind, _shape_in_file(tensor), tensor.size_bytes) for tensor in in_order),
        {"format": "pt"},
    )
    return OutputFile(name, header, in_order)


def _shape_in_file(tensor: StoredPieces) -> tuple[int, ...]:
    packed = DTYPES[tensor.kind].packed
    return tensor.shape if packed == 1 else (*tensor.shape[:-1], tensor.shape[-1] * packed)


def _in_order(
    position: int, tensor: StoredPieces, pieces: Sequence[Piece], lengths: Sequence[int]
) -> Iterator[Fragment]:
    """What lies together in the whole tensor and in a piece, in the order of the whole."""
    starts = [run_starts(tensor.shape, piece.box) for piece in pieces]
    owners = np.repeat(np.arange(len(pieces)), [len(of_piece) for of_piece in starts])
    within = np.concatenate([np.arange(len(of_piece)) for of_piece in starts])
    itemsize = tensor.dtype.itemsize
    for index in np.argsort(np.concatenate(starts), kind="stable"):
        owner = int(owners[index])
        start = pieces[owner].start + int(within[index]) * lengths[owner] * itemsize
        yield Fragment(position, pieces[owner], start, start + lengths[owner] * itemsize)


class _Builder:
    """Joins fragments that lie together into ranges, and what is not copied into blocks."""

    def __init__(self, least_copy_bytes: int | None, block_bytes: int) -> None:
        self._least_copy_bytes = least_copy_bytes
        self._block_bytes = block_bytes
        self._range: list[Fragment] = []
        self._block = Block()

    def add(self, fragment: Fragment) -> Iterator[Segment]:
        """Go on with a fragment."""
        last = self._range[-1] if self._range else None
        if last is not None and (last.piece.file != fragment.piece.file or last.stop != fragment.start):
            yield from self.end_range()
        self._range.append(fragment)

    def add_slab(self, position: int, tensor: StoredPieces, pieces: Sequence[Piece], slab: Box) -> Iterator[Segment]:
        """Go on with a part of a tensor to which several pieces contribute elements here and there."""
        itemsize = tensor.dtype.itemsize
        size_bytes = slab.size * itemsize
        if self._block.size_bytes and self._block.size_bytes + size_bytes > self._block_bytes:
            yield from self._end_block()
        block = self._block
        for piece in pieces:
            common = piece.box.common(slab)
            if common is None:
                continue
            # A slab has whole rows of what it does not have one of, so what a piece gives to it are neighbours there.
            first = _position(common.offsets, piece.box)
            start = piece.start + first * itemsize
            fragment = Fragment(position, piece, start, start + common.size * itemsize)
            inner = Box(tuple(a - b for a, b in zip(common.offsets, slab.offsets, strict=True)), common.shape)
            if run_length(slab.shape, inner) == common.size:
                at = block.size_bytes + _position(common.offsets, slab) * itemsize
                block.fills.append(Fill(fragment, at))
            else:
                block.fills.append(Fill(fragment, Placement(itemsize, block.size_bytes, slab.shape, inner)))
        block.spans.append((position, size_bytes))
        block.size_bytes += size_bytes

    def end_range(self) -> Iterator[Segment]:
        """End what lies together."""
        fragments, self._range = self._range, []
        if not fragments:
            return
        if self._least_copy_bytes is not None and fragments[-1].stop - fragments[0].start >= self._least_copy_bytes:
            yield from self._end_block()
            yield Copy(fragments)
            return
        for fragment in fragments:
            start = fragment.start
            while start < fragment.stop:
                if self._block.size_bytes >= self._block_bytes:
                    yield from self._end_block()
                block = self._block
                stop = min(fragment.stop, start + self._block_bytes - block.size_bytes)
                part = Fragment(fragment.tensor, fragment.piece, start, stop)
                block.fills.append(Fill(part, block.size_bytes))
                block.spans.append((fragment.tensor, stop - start))
                block.size_bytes += stop - start
                start = stop

    def end(self) -> Iterator[Segment]:
        """End the file."""
        yield from self.end_range()
        yield from self._end_block()

    def _end_block(self) -> Iterator[Segment]:
        block, self._block = self._block, Block()
        if block.size_bytes:
            yield block


def _position(place: Sequence[int], box: Box) -> int:
    """Which of a box's elements, in the order of its own memory, has a place."""
    strides = contiguous_strides(box.shape)
    return sum((at - offset) * stride for at, offset, stride in zip(place, box.offsets, strides, strict=True))
