"""One reader's iterator over a data set: yields its share of an epoch, and says how far it got."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from typing import Any, Generic, Self, TypeVar

from torchbucket.datasets.clock import ClockedPass, EpochClock
from torchbucket.datasets.prefetch import open_readers
from torchbucket.datasets.resume import EpochState, StateDict
from torchbucket.datasets.settings import IterableSettings
from torchbucket.datasets.sharding import Shard
from torchbucket.datasets.source import ObjectSource
from torchbucket.datasets.transform import apply_transform
from torchbucket.files.reader import ObjectReader

__all__ = ["Samples"]

T = TypeVar("T")


class Samples(Iterator[T], Generic[T]):
    """Yields the samples of one rank's worker, and resumes at any of them.

    A sample that was yielded is consumed; one that is being fetched, or whose ``transform`` failed, is not. After a
    failure every further ``next`` fails too, so that no caller takes what is missing for the end.

    Args:
        source: the objects.
        transform: makes a sample of an open one.
        settings: how to read.
        shard: the rank and worker that reads.
        state: where in which epoch it begins.
        clock: is told when the share is read.
        begun: this reader's part in the pass.

    Raises:
        ConfigError: the state is of another reader.
    """

    def __init__(
        self,
        source: ObjectSource,
        transform: Callable[[ObjectReader], T],
        settings: IterableSettings,
        shard: Shard,
        state: EpochState,
        clock: EpochClock,
        begun: ClockedPass,
    ) -> None:
        self._source = source
        self._transform = transform
        self._settings = settings
        self._shard = shard
        self._clock = clock
        self._begun = begun
        self._running: Generator[T, None, None] | None = None
        self._closed = False
        self._failure: BaseException | None = None
        self._begin_at(state)

    @property
    def epoch(self) -> int:
        """The number of the epoch that is read."""
        return self._state.epoch

    def take_up(self, state: EpochState) -> None:
        """Go on from where a reader in the same place was."""
        self.close()
        self._closed, self._failure = False, None
        self._begin_at(state)
        through = self._consumed == len(self._share)
        if through and self._begun.finished and self._begun.epoch == state.epoch:
            return  # torchdata loads a state into the data set and into its iterator; the clock counts a reader once
        self._clock.take_up(self._begun, state.epoch)
        if through:
            self._clock.finish(self._begun)

    def state_dict(self) -> StateDict:
        """How many samples were yielded, of which share of which epoch."""
        return replace(self._state, consumed=self._consumed).to_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state of the same rank and worker among as many; ``ConfigError`` for any other."""
        self.take_up(EpochState.from_dict(state, self._state.plan))

    def close(self) -> None:
        """End the iteration and drop the reads that are under way; closing again is allowed."""
        self._closed = True
        if self._running is not None:
            self._running.close()

    def _begin_at(self, state: EpochState) -> None:
        self._share = state.share(self._shard)
        self._state = replace(state, shard=self._shard)
        self._consumed = state.consumed
        self._running = None

    def _run(self) -> Generator[T, None, None]:
        positions = self._share.positions(self._consumed)
        readers = open_readers(self._source, positions, fetch=self._settings.fetch, budget=self._settings.budget)
        with closing(readers):
            for reader in readers:
                yield apply_transform(self._transform, reader)

    def __next__(self) -> T:
        if self._failure is not None:
            raise RuntimeError("this iteration failed before; begin a new one") from self._failure
        if self._closed:
            raise StopIteration
        if self._running is None:
            self._running = self._run()
        try:
            sample = next(self._running)
        except StopIteration:
            self._clock.finish(self._begun)
            raise
        except BaseException as error:
            self._failure = error
            raise
        self._consumed += 1
        return sample

    def __iter__(self) -> Self:
        return self
