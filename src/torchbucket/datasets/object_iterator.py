"""One reader's iterator over whole objects: yields its share of an epoch, and says how far it got."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from dataclasses import replace
from typing import TypeVar

from torchbucket.datasets.epochs.state import EpochState
from torchbucket.datasets.prefetch import open_readers
from torchbucket.datasets.resumable_iterator import ResumableIterator
from torchbucket.datasets.transform import apply_transform

__all__ = ["ObjectIterator"]

T = TypeVar("T")


class ObjectIterator(ResumableIterator[T, EpochState]):
    """Yields a sample an object."""

    def _begin_at(self, state: EpochState) -> EpochState:
        self._share = state.share(self._shard)
        self._consumed = state.consumed
        return replace(state, shard=self._shard)

    def _run(self) -> Generator[T, None, None]:
        positions = self._share.positions(self._consumed)
        readers = open_readers(self._source, positions, fetch=self._settings.fetch, budget=self._settings.budget)
        with closing(readers):
            for reader in readers:
                # Nothing here keeps the sample: the consumer alone decides how long it lives.
                yield self._counted(apply_transform(self._transform, reader))

    def _counted(self, sample: T) -> T:
        self._consumed += 1
        return sample

    def _reached(self) -> EpochState:
        return replace(self._state, consumed=self._consumed)
