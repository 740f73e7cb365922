"""One reader's iterator over tar shards: yields its share of an epoch's samples, and says how far it got."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import replace
from itertools import chain
from typing import TypeVar

from torchbucket.datasets.resumable_iterator import ResumableIterator
from torchbucket.datasets.tar.jumps import jump_samples
from torchbucket.datasets.tar.sample import Place, TarSample
from torchbucket.datasets.tar.shuffle import Draws
from torchbucket.datasets.tar.state import TarState
from torchbucket.datasets.tar.stream import stream_samples
from torchbucket.datasets.transform import apply_transform
from torchbucket.errors import ArchiveError

__all__ = ["TarIterator"]

T = TypeVar("T")


class TarIterator(ResumableIterator[T, TarState]):
    """Yields the samples in a reader's shards; one that waits in the shuffle buffer is not consumed."""

    def close(self) -> None:
        """End the iteration and drop the reads that are under way; closing again is allowed."""
        super().close()
        if self._running is not None:
            self._state, self._restored = self._reached(), False
            self._buffer.clear()  # of which the state has the places

    def _begin_at(self, state: TarState) -> TarState:
        self._share, own = state.of_reader(self._shard)
        self._buffer: list[TarSample] = []
        self._draws = own.draws
        self._restored = False  # whether the buffer holds what the state says
        self._latest: tuple[int, Place, Place, bool] | None = None  # what was put into the buffer last
        self._exhausted = False
        return own

    def _reached(self) -> TarState:
        begun = self._state
        if not self._restored:
            return begun
        rest, opened = begun.rest, 0
        if self._exhausted:
            rest, opened = (), len(self._share) - begun.consumed
        elif self._latest is not None:
            number, piece, last, ends_shard = self._latest
            opened = max(0, number + 1 - len(begun.rest))
            rest = begun.rest[number + 1 :]
            if not ends_shard and last.stop is not None and last.stop != piece.stop:
                rest = (Place(piece.shard, last.stop, piece.stop, last.version), *rest)
        return replace(
            begun,
            consumed=begun.consumed + opened,
            rest=rest,
            buffer=tuple(sample.place for sample in self._buffer),
            draws=self._draws,
        )

    def _run(self) -> Generator[T, None, None]:
        begun = self._state
        shards = map(Place, self._share.positions(begun.consumed))
        read = stream_samples if self._settings.fetch == "whole" else jump_samples
        found = read(
            self._source,
            chain(begun.buffer, begun.rest, shards),
            extensions=self._settings.wanted,
            prefetch_bytes=self._settings.prefetch_bytes,
        )
        with closing(found):
            yield from self._drawn(found)

    def _drawn(self, found: Iterator[tuple[int, Place, TarSample]]) -> Generator[T, None, None]:
        """Yield from the buffer, which is filled up before each sample; without one it holds the next sample."""
        size = max(1, self._settings.shuffle_buffer)
        restoring = len(self._state.buffer)
        buffer = self._buffer
        draws = Draws(self._seed(), self._draws)
        while True:
            while not self._exhausted and (not self._restored or len(buffer) < size):
                # The buffer is whole again when the first sample beyond it arrives, or the end.
                if len(buffer) >= restoring:
                    self._restored = True
                    if len(buffer) >= size:
                        break
                following = next(found, None)
                if following is None:
                    if self._latest is None and not restoring:
                        self._check_not_empty()
                    self._restored = self._exhausted = True
                    break
                number, piece, sample = following
                # Views would keep whole ranges in memory for as long as one of their samples waits in the buffer.
                buffer.append(sample if size == 1 else sample.detached())
                if number >= restoring:
                    self._restored = True
                    self._latest = number - restoring, piece, sample.place, sample.ends_shard
                del following, sample
            if not buffer:
                return
            index = draws.below(len(buffer)) if size > 1 else 0
            transformed = apply_transform(self._transform, buffer[index])
            buffer[index] = buffer[-1]
            buffer.pop()
            self._draws = draws.count
            yield transformed
            del transformed

    def _check_not_empty(self) -> None:
        """Raise where a reader has shards and, from their beginning to their end, found no sample in any."""
        begun, count = self._state, len(self._share)
        if self._source.allow_empty or begun.rest or begun.stages or begun.consumed or not count:
            return
        first = self._source.uri(next(iter(self._share.positions(0))))
        extensions = list(self._settings.extensions or ["jpg"])
        raise ArchiveError(
            f"{first}: no sample is in it{f' or any other of the {count} shards of {self._shard}' * (count > 1)}; one "
            f"would be a member with a name such as 0001.{extensions[0]}. Correct extensions, leave such shards out "
            "(select), or pass allow_empty=True to from_prefix or from_manifest if that may be",
            uri=first,
        )

    def _seed(self) -> str:
        state = self._state
        return f"torchbucket buffer 1 {state.plan.seed} {state.epoch} {len(state.stages)} {self._shard}"
