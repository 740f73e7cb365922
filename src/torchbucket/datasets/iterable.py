"""The iterable-style data set: the objects of a bucket as a stream, dealt out to ranks and workers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Unpack

from typing_extensions import TypeVar

from torchbucket.config import StoreConfig
from torchbucket.datasets.epochs.batches import batches_of
from torchbucket.datasets.epochs.resume import state_after
from torchbucket.datasets.epochs.sharding import Shard, check_even
from torchbucket.datasets.epochs.state import EpochState, StateDict
from torchbucket.datasets.object_iterator import ObjectIterator
from torchbucket.datasets.options import shows_options
from torchbucket.datasets.resumable import ResumableDataset
from torchbucket.datasets.settings import IterableOptions, IterableSettings, Select
from torchbucket.datasets.source import ObjectSource
from torchbucket.datasets.transform import read_bytes
from torchbucket.errors import ConfigError
from torchbucket.files.reader import ObjectReader
from torchbucket.public import public
from torchbucket.uri import Address

__all__ = ["IterableDataset"]

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T", default=bytes)


@public
@shows_options(IterableSettings)
class IterableDataset(ResumableDataset[T_co, EpochState]):
    """Objects of one bucket as a stream: each once over all ranks and their DataLoader workers.

    Make one with ``from_prefix``, ``from_objects`` or ``from_manifest``. The names are listed once, at construction, in
    the process that constructs it; workers receive the listing. Ranks that list by themselves share exactly only if
    they see the same names: do not write under the prefix meanwhile, or give all of them one manifest.

    The share is decided when an iteration starts, from the rank (as given to the data set, else
    ``torch.distributed``'s, else ``RANK`` and ``WORLD_SIZE``, else one rank) and the worker. Ranks take objects in
    turn, then the workers of a rank do, so shares differ by one object at most; with ``even`` they are equal. Within
    its share a reader yields in the listing's order or, with ``shuffle``, in one that the seed and the epoch decide.

    Each complete pass begins the next epoch; ``set_epoch`` names another. An iterator's ``state_dict`` counts the
    samples that it yielded, so that what was merely fetched ahead is not lost; torchdata's ``StatefulDataLoader`` calls
    it. ``torchbucket.merge_states`` makes of all ranks' states one that any other number of ranks and workers takes up.

    While one sample is used the next objects are being fetched, within a budget of bytes and objects for each iterator.
    An iterator that is closed early, or fails, drops its reads; a DataLoader's worker does so when it ends.

    Works with fork, forkserver and spawn, persistent workers and pinned memory. Pickles without connections and
    credentials; with spawn and forkserver ``transform`` must be picklable. Iterators may run in several threads, each
    yielding a whole share.
    """

    _settings_type = IterableSettings
    _state_type = EpochState
    _iterator_type = ObjectIterator

    def __init__(
        self, source: ObjectSource, transform: Callable[[ObjectReader], T_co], settings: IterableSettings
    ) -> None:
        super().__init__(source, transform, settings, even=check_even(settings.even))

    @classmethod
    def from_prefix(
        cls: type[IterableDataset[Any]],
        uri: Address,
        *,
        transform: Callable[[ObjectReader], T] = read_bytes,  # type: ignore[assignment]  # T, then
        select: Select | None = None,
        allow_empty: bool = False,
        **options: Unpack[IterableOptions],
    ) -> IterableDataset[T]:
        """List a prefix and make a data set of all objects whose names begin with it, in byte order of the names."""
        return cls._from_prefix(uri, transform, options, select=select, allow_empty=allow_empty)

    @classmethod
    def from_objects(
        cls: type[IterableDataset[Any]],
        uris: Iterable[Address],
        *,
        transform: Callable[[ObjectReader], T] = read_bytes,  # type: ignore[assignment]  # T, then
        **options: Unpack[IterableOptions],
    ) -> IterableDataset[T]:
        """Make a data set of the objects with these addresses, in this order, without a request.

        An object that does not exist raises ``NotFoundError`` when it is read.
        """
        return cls._from_objects(uris, transform, options)

    @classmethod
    def from_manifest(
        cls: type[IterableDataset[Any]],
        uri: Address,
        *,
        transform: Callable[[ObjectReader], T] = read_bytes,  # type: ignore[assignment]  # T, then
        select: Select | None = None,
        allow_empty: bool = False,
        manifest_config: StoreConfig | None = None,
        **options: Unpack[IterableOptions],
    ) -> IterableDataset[T]:
        """Make a data set of the objects in a manifest (see ``torchbucket manifest``), without a listing request."""
        return cls._from_manifest(
            uri, transform, options, select=select, allow_empty=allow_empty, manifest_config=manifest_config
        )

    def state_after(
        self,
        *,
        epoch: int,
        batches: int,
        batch_size: int | None,
        num_workers: int,
        drop_last: bool = False,
        world_size: int | None = None,
    ) -> StateDict:
        """The state after some batches of a plain DataLoader, which keeps none: every rank consumed as many.

        Like what ``torchbucket.merge_states`` returns, it is for any number of ranks and workers.

        Args:
            epoch: the epoch that the batches were of; not ``epoch`` of the data set, which workers advance when they
                have fetched the last batch, before it is consumed.
            batches: how many the loader of each rank has yielded in this pass, so since a state was loaded.
            batch_size: the loader's; None where it yields samples.
            num_workers: the loader's.
            drop_last: the loader's.
            world_size: how many ranks there are; None means as many as now.

        Raises:
            ConfigError: a number is out of range, or the epoch has not so many batches; or nothing is dealt out.
        """
        if not self._sharding:
            raise ConfigError(
                "state_after computes what the readers of a data set that deals out consumed, and this one has "
                "sharding=False: take the state_dict of torchdata's StatefulDataLoader"
            )
        loaded = self._loaded
        base = loaded if loaded and loaded.epoch == epoch else EpochState(plan=self._plan, epoch=epoch)
        ranks = self._shard().rank.world_size if world_size is None else world_size
        return state_after(
            base, world_size=ranks, workers=num_workers, batches=batches, batch_size=batch_size, drop_last=drop_last
        )

    def batches_in_epoch(self, *, batch_size: int | None, num_workers: int, drop_last: bool = False) -> int:
        """How many batches a DataLoader of this rank yields in a whole epoch, which it cannot tell itself.

        For what needs the number beforehand, such as schedules of the learning rate. Of a rank's workers each ends with
        a batch of its own that may be short, so it may be more than the samples divided by the batch's size.

        Args:
            batch_size: the loader's; None where it yields samples.
            num_workers: the loader's.
            drop_last: the loader's.
        """
        rank, workers = self._shard().rank, max(1, num_workers)
        shards = [Shard(rank=rank, worker=worker, workers=workers) for worker in range(workers)]
        if not self._sharding:
            shards = [Shard(rank=rank)] * workers
        shares = [len(shard.places(self._plan.count, self._plan.even)) for shard in shards]
        return batches_of(shares, batch_size, drop_last=drop_last)

    def __repr__(self) -> str:
        return f"IterableDataset({len(self._source.listing)} objects in {self._source.root})"
