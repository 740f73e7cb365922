"""One reader's iterator over its share of an epoch, whatever samples are made of: it resumes, and it fails for good."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any, Generic, Self, TypeVar

from torchbucket.datasets.epochs.clock import ClockedPass, EpochClock
from torchbucket.datasets.epochs.sharding import Shard
from torchbucket.datasets.epochs.state import EpochState, StateDict
from torchbucket.datasets.iteration import Iteration
from torchbucket.datasets.source import ObjectSource

__all__ = ["ResumableIterator"]

T = TypeVar("T")


S = TypeVar("S", bound=EpochState)


class ResumableIterator(Iterator[T], Generic[T, S]):
    """Yields the samples of one rank's worker, and resumes at any of them.

    A sample that was yielded is consumed; one that is being fetched, or whose ``transform`` failed, is not. After a
    failure every further ``next`` fails too.

    Args:
        source: the objects.
        transform: makes a sample.
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
        transform: Callable[[Any], T],
        settings: Any,
        shard: Shard,
        state: S,
        clock: EpochClock,
        begun: ClockedPass,
    ) -> None:
        self._source = source
        self._transform = transform
        self._settings = settings
        self._shard = shard
        self._clock = clock
        self._begun = begun
        self._restart(state)

    @abstractmethod
    def _begin_at(self, state: S) -> S:
        """Prepare to read from there; return the reader's own state.

        Raises:
            ConfigError: the state is of another reader.
        """

    @abstractmethod
    def _run(self) -> Generator[T, None, None]:
        """Read from where ``_begin_at`` said; a sample counts as consumed before it is yielded."""

    @abstractmethod
    def _reached(self) -> S:
        """The state after what was yielded."""

    @property
    def epoch(self) -> int:
        """The number of the epoch that is read."""
        return self._state.epoch

    def take_up(self, state: S) -> None:
        """Go on from where a reader in the same place was."""
        self.close()
        self._restart(state)
        is_finished = self._state.is_finished()
        if is_finished and self._begun.finished and self._begun.epoch == self.epoch:
            return  # torchdata loads a state into the data set and into its iterator; the clock counts a reader once
        self._clock.take_up(self._begun, self.epoch)
        if is_finished:
            self._clock.finish(self._begun)

    def state_dict(self) -> StateDict:
        """What was yielded, of which share of which epoch."""
        return self._reached().to_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state of the same rank and worker among as many; ``ConfigError`` for any other."""
        self.take_up(type(self._state).from_dict(state, self._state.plan))

    def close(self) -> None:
        """End the iteration and drop the reads that are under way; closing again is allowed."""
        self._closed = True
        if self._running is not None:
            self._running.close()

    def _restart(self, state: S) -> None:
        self._running: Iteration[T] | None = None
        self._closed = False
        self._state = self._begin_at(state)

    def __next__(self) -> T:
        if self._closed:
            raise StopIteration
        if self._running is None:
            self._running = Iteration(self._run())
        try:
            return next(self._running)
        except StopIteration:
            self._clock.finish(self._begun)
            raise

    def __iter__(self) -> Self:
        return self
