"""Shards read from one end to the other: ranges on their way ahead of the samples, over several shards."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Collection, Generator, Iterator
from concurrent.futures import Future
from typing import Final, NamedTuple

from torchbucket.datasets.source import ObjectSource
from torchbucket.datasets.tar.pinned import PinnedPiece
from torchbucket.datasets.tar.received import MissingBytesError
from torchbucket.datasets.tar.sample import Place, TarSample
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
    queue = _Ranges(source, pieces, extensions, prefetch_bytes)
    try:
        while (shard := queue.first()) is not None:
            while True:
                try:
                    sample = shard.scan.step()
                except MissingBytesError:
                    queue.receive()
                    continue
                if sample is None:
                    break
                yield shard.number, shard.piece, sample
                del sample  # the consumer alone decides how long it lives
            queue.end()
    finally:
        queue.drop()


class _Range(NamedTuple):
    start: int
    stop: int
    future: Future[ObjectData]


class _Shard(PinnedPiece):
    """A piece some of whose ranges are on their way."""

    def __init__(self, source: ObjectSource, piece: Place, number: int, extensions: Collection[str] | None) -> None:
        super().__init__(source, piece, number, extensions)
        self.pending: deque[_Range] = deque()
        self._next_start = piece.start

    def next_bytes(self, range_bytes: int) -> int:
        """The length of the next range to ask for; 0 where there is none, or none yet."""
        stop = self._stop()
        if stop is None:
            return 0 if self.pending else range_bytes
        return max(0, min(range_bytes, stop - self._next_start))

    def submit_next(self, length_bytes: int) -> None:
        start, stop = self._next_start, self._next_start + length_bytes
        self.pending.append(_Range(start, stop, self.submit(start, stop)))
        self._next_start = stop

    def receive_next(self) -> int:
        """Wait for the oldest range; return its length."""
        start, stop, future = self.pending[0]
        self.receive(future, start, stop)
        self.pending.popleft()
        return stop - start

    def _stop(self) -> int | None:
        if self.piece.stop is not None:
            return self.piece.stop
        size_bytes = self.size_bytes
        if size_bytes is None and self.pending and self.pending[0].future.done():
            first = self.pending[0].future
            if not first.cancelled() and first.exception() is None:
                size_bytes = first.result().info.size_bytes
        return size_bytes


class _Ranges:
    """The ranges that were asked for and not yet looked through, shard by shard."""

    def __init__(
        self,
        source: ObjectSource,
        pieces: Iterator[Place],
        extensions: Collection[str] | None,
        prefetch_bytes: int,
    ) -> None:
        self._source = source
        self._extensions = extensions
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

    def receive(self) -> None:
        """Wait for the first shard's next range, and ask for more."""
        first = self._shards[0]
        if not first.pending:
            raise first.ends_inside()
        self._pending_bytes -= first.receive_next()
        self._fill()

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
            self._shards.append(_Shard(self._source, piece, number, self._extensions))
            if not self._submit(self._shards[-1]):
                return

    def _submit(self, shard: _Shard) -> bool:
        """Ask for what is left of a shard; say whether the budget allowed all that is known of it."""
        while length := shard.next_bytes(self._range_bytes):
            first = shard is self._shards[0] and not shard.pending
            if not first and self._pending_bytes + length > self._budget_bytes:
                return False
            shard.submit_next(length)
            self._pending_bytes += length
        return True

    def drop(self) -> None:
        """Cancel what is left. A forked child leaves its parent's reads alone: they are not its own to cancel."""
        if self._pid == os.getpid():
            for shard in self._shards:
                for pending in shard.pending:
                    pending.future.cancel()
        self._shards.clear()
