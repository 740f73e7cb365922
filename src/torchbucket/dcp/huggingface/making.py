"""Making one file of whole tensors out of shards: copied by the server where it can, and else block by block."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, wait
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from torchbucket.checkpoint.read_back import SUM
from torchbucket.config import KIB, MIB
from torchbucket.dcp.directory import CheckpointDirectory
from torchbucket.dcp.huggingface.outputs import Block, Copy, Fragment, OutputFile, Placement, Segment, segments
from torchbucket.dcp.huggingface.pieces import Piece
from torchbucket.dcp.manifest import FileRecord
from torchbucket.errors import ChecksumError
from torchbucket.safetensors.header import quoted
from torchbucket.safetensors.places import TensorFile
from torchbucket.store.http.checksums import Checksum, combined
from torchbucket.store.protocol import ObjectInfo, ObjectWriter, Store, Target

__all__ = ["PieceSums", "make_file"]

PieceSums: TypeAlias = Mapping[tuple[str, int], tuple[int, str]]
"""Length and checksum of stored pieces, as far as they are known, by file and where in it the piece begins."""

_Bytes: TypeAlias = npt.NDArray[np.uint8]

# Blocks that are read ahead of the one that is written.
_BLOCKS_AHEAD: Final = 8
# Shorter ranges are read and written, since a copy is a request too, and mostly has one before it that it waits for.
_COPY_BYTES: Final = 16 * MIB
# See torchbucket.dcp.batches: what lies between is of other ranks' tensors, or of other files.
_GAP_BYTES: Final = 64 * KIB


def make_file(
    source: CheckpointDirectory,
    files: Mapping[str, TensorFile],
    target: CheckpointDirectory,
    output: OutputFile,
    known: PieceSums,
) -> FileRecord:
    """Write a file of whole tensors.

    In memory are some blocks of the file at a time, whatever its size, and as much again of shards that are cut along
    another dimension than the first.

    Args:
        source: where the shards are.
        files: the shards, of the versions that are read.
        target: where the file is to be.
        output: the file.
        known: the checksums of stored pieces.

    Raises:
        ChecksumError: a piece has other bytes than were written.
        StoreError: a read or the write failed; there is no such file then.
    """
    least = target.store.least_copy_bytes if target.store is source.store else None
    least = None if least is None else max(least, _COPY_BYTES)
    sums = _Sums(source, output, known)
    waiting: deque[Copy | _Reading] = deque()
    blocks = 0
    following = segments(output, least)
    try:
        with target.store.open_writer(target.key(output.name), size_hint=output.size_bytes) as writer:
            writer.write(output.header)
            while True:
                while blocks < _BLOCKS_AHEAD and (segment := next(following, None)) is not None:
                    waiting.append(_begun(source.store, files, segment))
                    blocks += isinstance(segment, Block)
                if not waiting:
                    break
                first = waiting.popleft()
                if isinstance(first, Copy):
                    _copy(writer, files, first, sums)
                else:
                    blocks -= 1
                    first.write(writer, sums)
                    del first  # and its memory, before the next is begun
    finally:
        for left in waiting:
            if isinstance(left, _Reading):
                left.cancel()
    return sums.record(writer.info)


def _begun(store: Store, files: Mapping[str, TensorFile], segment: Segment) -> Copy | _Reading:
    return segment if isinstance(segment, Copy) else _Reading(store, files, segment)


def _copy(writer: ObjectWriter, files: Mapping[str, TensorFile], copy: Copy, sums: _Sums) -> None:
    first, last = copy.fragments[0], copy.fragments[-1]
    writer.write_range(files[first.piece.file].info, first.start, last.stop)
    for fragment in copy.fragments:
        sums.copied(fragment)


class _Reading:
    """A block that is being read."""

    def __init__(self, store: Store, files: Mapping[str, TensorFile], block: Block) -> None:
        self._block = block
        self._memory: _Bytes = np.empty(block.size_bytes, np.uint8)
        self._received: list[_Bytes] = []
        self._futures: list[Future[ObjectInfo]] = []
        targets: dict[str, list[Target]] = {}
        for fill in block.fills:
            fragment, length = fill.fragment, fill.fragment.stop - fill.fragment.start
            if isinstance(fill.place, Placement):
                self._received.append(np.empty(length, np.uint8))
            else:
                self._received.append(self._memory[fill.place : fill.place + length])
            targets.setdefault(fragment.piece.file, []).append((fragment.start, self._received[-1].data))
        try:
            for name, of_file in targets.items():
                info = files[name].info
                self._futures.append(
                    store.submit_read_into(
                        info.key, of_file, size_bytes=info.size_bytes, version=info.version, gap_bytes=_GAP_BYTES
                    )
                )
        except BaseException:
            self.cancel()
            raise

    def write(self, writer: ObjectWriter, sums: _Sums) -> None:
        """Wait for all of it and append it."""
        try:
            for future in self._futures:
                future.result()
        except BaseException:
            self.cancel()
            raise
        for fill, received in zip(self._block.fills, self._received, strict=True):
            sums.check(fill.fragment.piece, received, is_last=fill.fragment.stop == fill.fragment.piece.stop)
            if isinstance(fill.place, Placement):
                _put(self._memory, fill.place, received)
        start = 0
        for tensor, length in self._block.spans:
            sums.add(tensor, SUM.of([self._memory[start : start + length].data]), length)
            start += length
        writer.write(self._memory.data)

    def cancel(self) -> None:
        """Give up what was not begun, and wait for what was: it fills memory."""
        for future in self._futures:
            future.cancel()
        wait(self._futures)


def _put(memory: _Bytes, place: Placement, received: _Bytes) -> None:
    """Copy elements, whatever they mean, to where they belong in a block."""
    word: Any = np.dtype(f"u{place.itemsize}")
    stop = place.start + place.itemsize * int(np.prod(place.shape))
    slab = memory[place.start : stop].view(word).reshape(place.shape)
    inner = tuple(map(slice, place.box.offsets, place.box.stops))
    slab[inner] = received.view(word).reshape(place.box.shape)


class _Sums:
    """Checksums of what is read, compared with those of what was written, and of what is made of it."""

    def __init__(self, source: CheckpointDirectory, output: OutputFile, known: PieceSums) -> None:
        self._source = source
        self._output = output
        self._known = known
        self._of_pieces: dict[tuple[str, int], int] = {}
        self._unseen: set[tuple[str, int]] = set()
        self._of_tensors: list[list[tuple[Checksum | None, int]]] = [[] for _ in output.tensors]

    def known(self, piece: Piece) -> Checksum | None:
        """What a piece's checksum was when it was written."""
        length, text = self._known.get((piece.file, piece.start), (None, ""))
        return SUM.read(text) if length == piece.stop - piece.start else None

    def check(self, piece: Piece, received: _Bytes, *, is_last: bool) -> None:
        """Go on with a piece, whose bytes come in their order; compare it when all have come."""
        key = (piece.file, piece.start)
        value = SUM.compute(received.data, self._of_pieces.pop(key, 0))
        if not is_last:
            self._of_pieces[key] = value
            return
        expected = None if key in self._unseen else self.known(piece)
        if expected is not None and expected.value != value:
            uri = self._source.file_uri(piece.file)
            raise ChecksumError(
                f"consolidate {uri}: the {piece.stop - piece.start:,} bytes at {piece.start:,} have the {SUM.name} "
                f"{SUM.text(value)}, and what was written {expected.text}: the file was altered, or damaged on its "
                f"way; consolidate again. {quoted(self._output.name)} was not written",
                operation="consolidate",
                uri=uri,
                algorithm=SUM.name,
                expected=expected.text,
                computed=SUM.text(value),
            )

    def copied(self, fragment: Fragment) -> None:
        """Note that the server has appended bytes, of a checksum that is known if they are all of a piece."""
        piece = fragment.piece
        self.add(fragment.tensor, self.known(piece) if fragment.is_whole else None, fragment.stop - fragment.start)
        if not fragment.is_whole:
            self._unseen.add((piece.file, piece.start))

    def add(self, tensor: int, value: Checksum | None, length: int) -> None:
        """Note the checksum of the next bytes of a tensor."""
        self._of_tensors[tensor].append((value, length))

    def record(self, info: ObjectInfo) -> FileRecord:
        """What is known of the file."""
        header = self._output.header
        items: list[tuple[int, Checksum | None]] = [(len(header), SUM.of([header]))]
        for tensor, parts in zip(self._output.tensors, self._of_tensors, strict=True):
            items.append((tensor.size_bytes, combined(SUM, parts)))
        whole = combined(SUM, ((value, length) for length, value in items))
        return FileRecord(
            size_bytes=info.size_bytes,
            crc64nvme=None if whole is None else whole.text,
            version=info.version,
            items=_told(items),
        )


def _told(items: Sequence[tuple[int, Checksum | None]]) -> tuple[tuple[int, str], ...]:
    """The items up to the first whose checksum is not known: each one's place follows from those before."""
    told = []
    for length, value in items:
        if value is None:
            break
        told.append((length, value.text))
    return tuple(told)
