"""What the iterable-style data sets have in common: the names, the epochs, and how far the latest pass got."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Generic, TypeVar

from torch.utils.data import get_worker_info

from torchbucket.datasets.closing_iterator import ClosingIterator
from torchbucket.datasets.epochs.clock import EpochClock
from torchbucket.datasets.epochs.epoch import EpochPlan
from torchbucket.datasets.epochs.sharding import Even
from torchbucket.datasets.epochs.state import EpochState, StateDict
from torchbucket.datasets.listed import ListedDataset
from torchbucket.datasets.resumable_iterator import ResumableIterator
from torchbucket.datasets.settings import StreamSettings
from torchbucket.datasets.sharded_stream import ShardedStream
from torchbucket.datasets.source import ObjectSource
from torchbucket.errors import ConfigError

__all__ = ["ResumableDataset"]

T_co = TypeVar("T_co", covariant=True)
S = TypeVar("S", bound=EpochState)


class ResumableDataset(ListedDataset, ShardedStream[T_co], Generic[T_co, S]):
    """A stream whose share is decided when an iteration starts, and which goes on from where it was left.

    Args:
        source: the objects that are dealt out.
        transform: makes a sample.
        settings: how to read and deal out.
        even: how the objects are dealt out evenly, if they are.
    """

    _state_type: ClassVar[type[Any]]  # says how far a reader got
    _iterator_type: ClassVar[type[ResumableIterator[Any, Any]]]

    def __init__(
        self,
        source: ObjectSource,
        transform: Callable[[Any], T_co],
        settings: StreamSettings,
        *,
        even: Even | None = None,
    ) -> None:
        ListedDataset.__init__(self, source, transform, settings)
        ShardedStream.__init__(self, settings)
        self._plan = EpochPlan(
            count=len(source.listing),
            names=source.names_digest(),
            shuffle=settings.shuffle,
            seed=settings.seed,
            even=even,
        )
        self._clock = EpochClock()
        self._loaded: S | None = None  # applies while the clock says so
        self._workers_own: S | None = None  # what the next iterator of this worker takes up
        self._latest: ResumableIterator[T_co, S] | None = None

    @property
    def epoch(self) -> int:
        """The number of the epoch that the next pass reads, from 0."""
        return self._clock.epoch

    def set_epoch(self, epoch: int) -> None:
        """Name the epoch of the next pass, on every rank alike; running workers that persist learn of it too.

        Passes that have begun stay what they are. A state that was loaded keeps applying if it is of that epoch.
        """
        super().set_epoch(epoch)
        self._clock.set(epoch)
        if self._latest is not None and self._latest.epoch != epoch:
            self._latest = None

    def state_dict(self) -> StateDict:
        """How far the latest iterator of this process got; before any, how far the next one's epoch is.

        A plain dictionary of numbers, texts and lists: some hundred bytes, and 40 for each sample in a shuffle buffer.

        Raises:
            ConfigError: a DataLoader's workers have read since an epoch was named: what of their samples was consumed
                is known to ``StatefulDataLoader``, whose ``state_dict`` has it, and to who counts the batches
                (``IterableDataset.state_after``).
        """
        if self._latest is not None:
            return self._latest.state_dict()
        if get_worker_info() is None and self._clock.in_workers:
            raise ConfigError(
                "state_dict of a data set that a DataLoader's workers are reading, or have read: this process does not "
                "know what of their samples was consumed. Take the state_dict of torchdata's StatefulDataLoader, or "
                "that of IterableDataset.state_after(batches=…)"
            )
        return self._beginning(self._clock.epoch, resuming=self._clock.resuming).to_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state: the next iteration yields the rest of its epoch, and the one after it the next epoch.

        Load it before a loader is made. A state of one rank and worker is for the same ones, one from
        ``torchbucket.merge_states`` or ``IterableDataset.state_after`` for any.

        Raises:
            ConfigError: it is no state, damaged, or of a data set with other objects, order or split.
        """
        loaded = self._state_type.from_dict(state, self._plan)
        if get_worker_info() is not None:
            self._workers_own = loaded
            return
        if loaded.is_finished():
            loaded = self._state_type(plan=self._plan, epoch=loaded.epoch + 1)
        loaded.opened()  # a state that contradicts itself is refused here, not in a worker
        self._loaded = loaded
        self._latest = None
        self._clock.resume(loaded.epoch)

    def __iter__(self) -> Iterator[T_co]:
        """Begin to yield the calling process' share; reads begin with the first ``next``.

        Raises:
            ConfigError: the rank is contradictory, or a loaded state is of another reader.
            StoreError: by ``next``, where an object could not be read, after all retries; the error names it.
        """
        shard = self._shard()
        own, self._workers_own = self._workers_own, None
        begun = self._clock.begin()
        state = self._beginning(begun.epoch, resuming=begun.resuming)
        reader = self._iterator_type(self._source, self._transform, self._settings, shard, state, self._clock, begun)
        if own is not None:
            reader.take_up(own)
        self._latest = reader
        return ClosingIterator(reader)

    def _beginning(self, epoch: int, *, resuming: bool) -> S:
        """Where a pass of an epoch begins."""
        if self._loaded is not None and resuming and self._loaded.epoch == epoch:
            return self._loaded
        beginning: S = self._state_type(plan=self._plan, epoch=epoch)
        return beginning

    def __getstate__(self) -> dict[str, object]:
        return super().__getstate__() | {"_latest": None}
