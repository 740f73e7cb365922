"""Shards of which only some members are wanted: headers are read, and what lies between is jumped over."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Collection, Generator, Iterator
from concurrent.futures import Future
from typing import Final

from torchbucket.datasets.source import ObjectSource
from torchbucket.datasets.tar.pinned import PinnedPiece
from torchbucket.datasets.tar.received import MissingBytesError
from torchbucket.datasets.tar.sample import Place, TarSample
from torchbucket.store.protocol import ObjectData

__all__ = ["jump_samples"]

# Each header says where the next one is, so one shard waits for one request after another: many are read at once.
# Source: a quarter of StoreConfig.concurrency's default, which several workers of a host share.
_SHARDS: Final = 16

# Source of both: at 100 MiB/s a connection moves 64 KiB in 0.6 ms and 1 MiB in 10 ms, half the wait of 20 ms for the
# first byte of another request. After a shorter jump the ranges grow, so that small gaps are read through.
_FIRST_RANGE_BYTES: Final = 64 << 10
_SHORT_JUMP_BYTES: Final = 1 << 20
_LONGEST_RANGE_BYTES: Final = 8 << 20


def jump_samples(
    source: ObjectSource, pieces: Iterator[Place], *, extensions: Collection[str] | None, prefetch_bytes: int
) -> Generator[tuple[int, Place, TarSample], None, None]:
    """Yield the samples of the pieces, in order, each with its piece and that one's number; read little else.

    Sixteen pieces are gone through at once, each in its own steps, which are made whenever the consumer asks for a
    sample; what they find waits for its turn, at most ``prefetch_bytes`` of it, beside one sample and range of each.

    Raises:
        ArchiveError: a shard is no sound tar archive.
        StoreError: a range could not be read.
    """
    numbered = enumerate(pieces)
    share_bytes = prefetch_bytes // _SHARDS
    walks: deque[_Walk] = deque()
    pid = os.getpid()

    def open_more() -> None:
        while len(walks) < _SHARDS and (following := next(numbered, None)) is not None:
            number, piece = following
            walks.append(_Walk(source, piece, number, extensions, share_bytes))
            walks[-1].go_on()

    try:
        open_more()
        while walks:
            first = walks[0]
            while not first.is_over():
                for walk in walks:
                    walk.go_on()
                sample = first.take()
                if sample is None:
                    first.wait()
                    continue
                yield first.number, first.piece, sample
                del sample
            walks.popleft()
            open_more()
    finally:
        if pid == os.getpid():  # a forked child leaves its parent's reads alone
            for walk in walks:
                walk.drop()


class _Walk(PinnedPiece):
    """The way through one piece: what was found and not handed out, and the range it waits for."""

    def __init__(
        self, source: ObjectSource, piece: Place, number: int, extensions: Collection[str] | None, share_bytes: int
    ) -> None:
        super().__init__(source, piece, number, extensions)
        self._found: deque[TarSample] = deque()
        self._found_bytes = 0
        self._ended = False
        self._share_bytes = share_bytes
        self._failure: Exception | None = None
        self._length = _FIRST_RANGE_BYTES
        self._awaited: tuple[int, int, Future[ObjectData]] | None = None
        self._fetched_stop = piece.start

    def is_over(self) -> bool:
        """Whether every sample was found and taken."""
        return self._ended and not self._found

    def take(self) -> TarSample | None:
        """The next sample that was found; None where it has to be waited for."""
        if not self._found:
            return None
        sample = self._found.popleft()
        self._found_bytes -= sample.size_bytes
        return sample

    def go_on(self) -> None:
        """Look through what has arrived, and ask for what is missing then; never waits, and raises nothing."""
        if self._ended or self._failure is not None or self._is_full():
            return
        if self._awaited is not None and not self._awaited[2].done():
            return
        try:
            self._step()
        except Exception as error:  # noqa: BLE001  # raised when it is this piece's turn
            self._failure = error

    def wait(self) -> None:
        """Wait for the range that is missing; raise what went wrong on the way."""
        if self._failure is not None:
            raise self._failure
        if self._awaited is None:
            self.go_on()
        else:
            self._step()

    def drop(self) -> None:
        """Cancel the request under way."""
        if self._awaited is not None:
            self._awaited[2].cancel()

    def _is_full(self) -> bool:
        return bool(self._found) and self._found_bytes >= self._share_bytes

    def _step(self) -> None:
        if self._awaited is not None:
            start, stop, future = self._awaited
            self.receive(future, start, stop)
            self._awaited = None
        try:
            while not self._is_full():
                sample = self.scan.step()
                if sample is None:
                    self._ended = True
                    return
                # A view would keep a long range alive for a short member.
                self._found.append(sample.detached())
                self._found_bytes += sample.size_bytes
        except MissingBytesError as missing:
            self._submit(missing.start, self._stop_after(missing))

    def _stop_after(self, missing: MissingBytesError) -> int:
        """Where the range ends that begins with the missing bytes: long where ranges follow one another closely."""
        jumped = missing.start - self._fetched_stop
        longest = max(_FIRST_RANGE_BYTES, min(self._share_bytes, _LONGEST_RANGE_BYTES))
        self._length = min(2 * self._length, longest) if jumped <= _SHORT_JUMP_BYTES else _FIRST_RANGE_BYTES
        end = self.size_bytes if self.piece.stop is None else self.piece.stop
        if end is None:
            return missing.start + self._length
        if missing.start >= end:
            raise self.ends_inside()
        return min(max(missing.stop, missing.start + self._length), end)

    def _submit(self, start: int, stop: int) -> None:
        self._awaited = start, stop, self.submit(start, stop)
        self._fetched_stop = stop
