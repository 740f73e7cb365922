"""Shards read from one end to the other: ranges on their way ahead of the samples, over several shards."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Collection, Generator, Iterator
from concurrent.futures import Future
from typing import Final, NamedTuple

from torchbucket.datasets.source import ObjectSource
from torchbucket.datasets.tar.pinned import PinnedShard
from torchbucket.datasets.tar.received import MissingBytesError
from torchbucket.datasets.tar.sample import Place, TarSample
from torchbucket.datasets.tar.scan import ShardScan
from torchbucket.errors import ArchiveError
from torchbucket.store.protocol import ObjectData

__all__ = ["stream_samples"]

# A range is one request. Source of 8 MiB: the default of StoreConfig.part_size_bytes; more would be split again. A
# smaller budget is used up by eight ranges, so that they overlap.
_RANGE_BYTES: Final = 8 << 20
_SMALLEST_RANGE_BYTES: Final = 64 << 10
_RANGES: Final = 8

# Source: twice StoreConfig.concurrency's default, as for plain objects; more small shards would only wait.
_SHARDS_AHEAD: Final = 128


def stream_samples(
    source: ObjectSource, pieces: Iterator[Place], *, extensions: Collection[str] | None, prefetch_bytes: int
) -> Generator[tuple[int, Place, TarSample], None, None]:
    """Yield the samples of the pieces, in order, each with its piece and that one's number.

    The ranges that follow are on their way, of this piece and, where it ends, of the next ones: at most
    ``prefetch_bytes`` of them, beside the range and the sample in hand. Whatever ends the iteration drops what is left.

    Raises:
        ArchiveError: a shard is no sound tar archive.
        StoreError: a range could not be read.
    """
    queue = _Ranges(source, pieces, prefetch_bytes)
    try:
        while (shard := queue.first()) is not None:
            # The scan begins when the shard's size is known: from the listing, or with its first bytes.
            scan = shard.scan(extensions)
            while scan is None:
                arrived = queue.take()
                scan = shard.scan(extensions)
                assert scan is not None  # what arrived has told the size
                scan.add(*arrived)
                del arrived
            while True:
                try:
                    sample = scan.step()
                except MissingBytesError:
                    scan.add(*queue.take())
                    continue
                if sample is None:
                    break
                yield shard.number, shard.piece, sample
                del sample  # the consumer alone decides how long it lives
            queue.end()
    finally:
        queue.drop()


_Arrived = tuple[int, bytes | bytearray | memoryview, str | None]
"""Where a range starts, its bytes, and the shard's version."""


class _Range(NamedTuple):
    start: int
    stop: int
    future: Future[ObjectData]


class _Shard:
    """A piece some of whose ranges are on their way."""

    def __init__(self, source: ObjectSource, piece: Place, number: int) -> None:
        self.piece = piece
        self.number = number
        self.pending: deque[_Range] = deque()
        self._pinned = PinnedShard(source, piece)
        self._next_start = piece.start

    def scan(self, extensions: Collection[str] | None) -> ShardScan | None:
        """Begin to look for samples; None while the shard's size is not known."""
        size_bytes = self._pinned.size_bytes
        if size_bytes is None:
            return None
        return ShardScan(self._pinned.uri, self.piece, size_bytes=size_bytes, extensions=extensions)

    def next_bytes(self, range_bytes: int) -> int:
        """The length of the next range to ask for; 0 where there is none, or none yet."""
        stop = self._stop()
        if stop is None:
            return 0 if self.pending else range_bytes
        return max(0, min(range_bytes, stop - self._next_start))

    def submit(self, length_bytes: int) -> None:
        start, stop = self._next_start, self._next_start + length_bytes
        self.pending.append(_Range(start, stop, self._pinned.submit(start, stop)))
        self._next_start = stop

    def take(self) -> _Arrived:
        """Wait for the oldest range; see ``_Arrived``."""
        start, stop, future = self.pending[0]
        data = self._pinned.received(future, start, stop)
        self.pending.popleft()
        return start, data, self._pinned.version

    def ends_inside(self) -> ArchiveError:
        """What is wrong when a sample needs bytes beyond the piece's end."""
        return self._pinned.ends_inside(self.piece.stop)

    def _stop(self) -> int | None:
        if self.piece.stop is not None:
            return self.piece.stop
        size_bytes = self._pinned.size_bytes
        if size_bytes is None and self.pending and self.pending[0].future.done():
            first = self.pending[0].future
            if not first.cancelled() and first.exception() is None:
                size_bytes = first.result().info.size_bytes
        return size_bytes


class _Ranges:
    """The ranges that were asked for and not yet looked through, shard by shard."""

    def __init__(self, source: ObjectSource, pieces: Iterator[Place], prefetch_bytes: int) -> None:
        self._source = source
        self._pieces = enumerate(pieces)
        self._budget_bytes = prefetch_bytes
        self._range_bytes = min(max(prefetch_bytes // _RANGES, _SMALLEST_RANGE_BYTES), _RANGE_BYTES)
        self._pending_bytes = 0
        self._shards: deque[_Shard] = deque()
        self._pid = os.getpid()

    def first(self) -> _Shard | None:
        """The piece whose samples come next; None at the end."""
        self._fill()
        return self._shards[0] if self._shards else None

    def take(self) -> _Arrived:
        """Wait for the first shard's next range, and ask for more."""
        first = self._shards[0]
        if not first.pending:
            raise first.ends_inside()
        length = first.pending[0].stop - first.pending[0].start
        arrived = first.take()
        self._pending_bytes -= length
        self._fill()
        return arrived

    def end(self) -> None:
        """Leave the first shard behind, which is read to its end."""
        self._shards.popleft()

    def _fill(self) -> None:
        """Ask for ranges while the budget allows, and for one in any case where the first shard has none."""
        for shard in self._shards:
            if not self._submit(shard):
                return
        while len(self._shards) < _SHARDS_AHEAD and self._pending_bytes < self._budget_bytes:
            following = next(self._pieces, None)
            if following is None:
                return
            number, piece = following
            self._shards.append(_Shard(self._source, piece, number))
            if not self._submit(self._shards[-1]):
                return

    def _submit(self, shard: _Shard) -> bool:
        """Ask for what is left of a shard; say whether the budget allowed all that is known of it."""
        while length := shard.next_bytes(self._range_bytes):
            first = shard is self._shards[0] and not shard.pending
            if not first and self._pending_bytes + length > self._budget_bytes:
                return False
            shard.submit(length)
            self._pending_bytes += length
        return True

    def drop(self) -> None:
        """Cancel what is left. A forked child leaves its parent's reads alone: they are not its own to cancel."""
        if self._pid == os.getpid():
            for shard in self._shards:
                for pending in shard.pending:
                    pending.future.cancel()
        self._shards.clear()
