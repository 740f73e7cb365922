"""Reading items in batches: as many at once as there is memory for, each compared with its checksum."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, wait
from operator import itemgetter
from typing import Final

import torch

from torchbucket.checkpoint.archive import is_plain
from torchbucket.checkpoint.read_back import SUM
from torchbucket.config import KIB, MIB
from torchbucket.dcp.directory import CheckpointDirectory
from torchbucket.dcp.item_reading import ItemRead
from torchbucket.dcp.sharing import Assignment
from torchbucket.errors import ChecksumError
from torchbucket.store.protocol import ObjectInfo, Target

__all__ = ["read_all"]

# Memory beside the tensors' own, of what is being read and of what was read and is being copied.
_SCRATCH_BYTES: Final = 256 * MIB
# Bytes between two wanted ranges that are read rather than asked around: fewer than a store's own, since a rank that
# wants some rows of each tensor would otherwise read most of the others as well.
_GAP_BYTES: Final = 64 * KIB
# What was changed on its way is right the next time.
_ATTEMPTS: Final = 3


def read_all(directory: CheckpointDirectory, reads: Sequence[ItemRead], assignment: Assignment) -> None:
    """Read items and hand them to the planner.

    Args:
        directory: the checkpoint.
        reads: the items, in the order of their places.
        assignment: which versions of the files to read, and the checksums that are known.

    Raises:
        ChecksumError: an item has other bytes than were written, also when it was read again.
        StoreError: a read failed.
    """
    _keep_apart(reads)
    remaining, attempts_left = list(reads), _ATTEMPTS
    while remaining:
        again, damaged = _run(directory, remaining, assignment)
        attempts_left -= bool(damaged)
        if not attempts_left:
            raise _damaged(directory, damaged[0], assignment)
        remaining = again + damaged  # an item is read in another way once


def _run(
    directory: CheckpointDirectory, reads: Sequence[ItemRead], assignment: Assignment
) -> tuple[list[ItemRead], list[ItemRead]]:
    """Read items; return what must be read in another way, and what had other bytes than were written."""
    again: list[ItemRead] = []
    damaged: list[ItemRead] = []
    before: _Batch | None = None
    for batch in _batches(reads):
        try:
            started = _Batch(directory, batch, assignment)
        except BaseException:
            if before is not None:
                before.cancel()
            raise
        try:
            if before is not None:
                before.finish(again, damaged)
        except BaseException:
            started.cancel()
            raise
        before = started
    if before is not None:
        before.finish(again, damaged)
    return again, damaged


class _Batch:
    """Items that are read at the same time."""

    def __init__(self, directory: CheckpointDirectory, reads: Sequence[ItemRead], assignment: Assignment) -> None:
        self._reads = reads
        self._sums = assignment.sums
        self._futures: list[Future[ObjectInfo]] = []
        targets: dict[str, list[Target]] = {}
        for read in reads:
            targets.setdefault(read.name, []).extend(read.targets())
        try:
            for name, of_file in targets.items():
                file = assignment.files.get(name)
                self._futures.append(
                    directory.store.submit_read_into(
                        directory.key(name),
                        of_file,
                        size_bytes=None if file is None else file.size_bytes,
                        version=None if file is None else file.version,
                        gap_bytes=_GAP_BYTES,
                    )
                )
        except BaseException:
            self.cancel()
            raise

    def finish(self, again: list[ItemRead], damaged: list[ItemRead]) -> None:
        """Wait until all is there, and hand it over; add what must be read in another way, or once more."""
        try:
            for future in self._futures:
                future.result()
        except BaseException:
            self.cancel()
            raise
        for read in self._reads:
            known = self._sums.get((read.name, read.offset))
            content = read.content()
            if known is not None and content and (sum(map(len, content)), SUM.of(content).text) != known:
                damaged.append(read)
            elif (other := read.finish()) is not None:
                again.append(other)

    def cancel(self) -> None:
        """Give up what was not begun, and wait for what was: it fills memory."""
        for future in self._futures:
            future.cancel()
        wait(self._futures)


def _keep_apart(reads: Sequence[ItemRead]) -> None:
    """Have what goes into the same memory, as of tied weights or a tensor and its view, written there one by one.

    Read at the same time, what was stored apart would be mixed.
    """
    spans = [(*span, read) for read in reads if (span := _span(read.wanted)) is not None]
    spans.sort(key=itemgetter(0))
    last_stop, last = 0, None
    for start, stop, read in spans:
        if last is not None and start < last_stop:
            read.keep_apart()
            last.keep_apart()
        if stop > last_stop:
            last_stop, last = stop, read


def _span(tensor: torch.Tensor | None) -> tuple[int, int] | None:
    """Where a tensor's elements are in the host's memory; None where they are not there."""
    if tensor is None or not tensor.numel() or not tensor.is_cpu or not is_plain(tensor):
        return None
    if tensor.layout is not torch.strided:
        return None
    last = sum((length - 1) * stride for length, stride in zip(tensor.shape, tensor.stride(), strict=True))
    start = tensor.data_ptr()
    return start, start + (last + 1) * tensor.element_size()


def _batches(reads: Sequence[ItemRead]) -> list[list[ItemRead]]:
    """Items in their order, by how much memory of their own they need together: two batches are there at a time."""
    batches: list[list[ItemRead]] = []
    used = 0
    for read in reads:
        if not batches or (used and used + read.scratch_bytes > _SCRATCH_BYTES // 2):
            batches.append([])
            used = 0
        batches[-1].append(read)
        used += read.scratch_bytes
    return batches


def _damaged(directory: CheckpointDirectory, read: ItemRead, assignment: Assignment) -> ChecksumError:
    length, expected = assignment.sums[read.name, read.offset]
    computed = SUM.of(read.content()).text
    uri = directory.file_uri(read.name)
    return ChecksumError(
        f"load {uri}: the {length:,} bytes at {read.offset:,} have the {SUM.name} {computed}, and what was written "
        f"{expected}: the file was altered, or is damaged; load an earlier checkpoint",
        operation="load",
        uri=uri,
        algorithm=SUM.name,
        expected=expected,
        computed=computed,
    )
