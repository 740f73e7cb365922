"""The iterable-style data set: the objects of a bucket as a stream, dealt out to ranks and workers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from typing import Any, TypeVar, overload

from torch.utils.data import IterableDataset as TorchIterableDataset

from torchbucket.config import StoreConfig
from torchbucket.datasets.prefetch import (
    PREFETCH_BYTES,
    PREFETCH_OBJECTS,
    Fetch,
    PrefetchBudget,
    check_fetch,
    open_readers,
)
from torchbucket.datasets.sharding import Rank, Shard
from torchbucket.datasets.source import ObjectSource
from torchbucket.datasets.transform import apply_transform, read_bytes
from torchbucket.files.reader import ObjectReader
from torchbucket.listing import KeyColumn, Listing
from torchbucket.store.protocol import ObjectInfo

__all__ = ["IterableDataset"]

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")


class IterableDataset(TorchIterableDataset[T_co]):
    """Objects of one bucket as a stream: each once over all ranks and their DataLoader workers.

    Make one with ``from_prefix`` or ``from_objects``. The names are listed once, at construction, in the process that
    constructs it; workers receive the listing. Ranks that list by themselves share exactly only if they see the same
    names, so do not write under the prefix meanwhile.

    The share is decided when an iteration starts, from the rank (as given to the data set, else
    ``torch.distributed``'s, else ``RANK`` and ``WORLD_SIZE``, else one rank) and the worker. Ranks take objects in
    turn, then the workers of a rank do, so shares differ by one object at most. Within its share a reader yields in
    the listing's order, every iteration from the start.

    While one sample is used the next objects are being fetched, within a budget of bytes and objects for each iterator.
    An iterator that is closed early, or fails, drops its reads; a DataLoader's worker does so when it ends.

    Works with fork, forkserver and spawn, persistent workers and pinned memory. Pickles without connections and
    credentials; with spawn and forkserver ``transform`` must be picklable. Iterators may run in several threads, each
    yielding a whole share.
    """

    def __init__(
        self,
        source: ObjectSource,
        transform: Callable[[ObjectReader], T_co],
        *,
        fetch: Fetch,
        budget: PrefetchBudget,
        rank: Rank | None,
    ) -> None:
        self._source = source
        self._transform = transform
        self._fetch = check_fetch(fetch)
        self._budget = budget
        self._rank = rank
        self._inherited_rank: Rank | None = None

    @overload
    @classmethod
    def from_prefix(
        cls,
        uri: str,
        *,
        config: StoreConfig | None = ...,
        fetch: Fetch = ...,
        prefetch_bytes: int = ...,
        prefetch_objects: int = ...,
        rank: int | None = ...,
        world_size: int | None = ...,
        select: Callable[[ObjectInfo], bool] | None = ...,
        allow_empty: bool = ...,
    ) -> IterableDataset[bytes]: ...

    @overload
    @classmethod
    def from_prefix(
        cls,
        uri: str,
        *,
        transform: Callable[[ObjectReader], T],
        config: StoreConfig | None = ...,
        fetch: Fetch = ...,
        prefetch_bytes: int = ...,
        prefetch_objects: int = ...,
        rank: int | None = ...,
        world_size: int | None = ...,
        select: Callable[[ObjectInfo], bool] | None = ...,
        allow_empty: bool = ...,
    ) -> IterableDataset[T]: ...

    @classmethod
    def from_prefix(
        cls,
        uri: str,
        *,
        transform: Callable[[ObjectReader], Any] = read_bytes,
        config: StoreConfig | None = None,
        fetch: Fetch = "whole",
        prefetch_bytes: int = PREFETCH_BYTES,
        prefetch_objects: int = PREFETCH_OBJECTS,
        rank: int | None = None,
        world_size: int | None = None,
        select: Callable[[ObjectInfo], bool] | None = None,
        allow_empty: bool = False,
    ) -> IterableDataset[Any]:
        """List a prefix and make a data set of all objects whose names begin with it, in byte order of the names.

        Args:
            uri: such as ``s3://bucket/train/``. Plain text: ``s3://bucket/train`` also means ``training-notes.txt``.
            transform: makes a sample of an open object; the default gives its content as ``bytes``.
            config: how to reach the bucket; None means ``StoreConfig()``.
            fetch: ``"whole"`` fetches objects ahead, before ``transform`` runs; ``"lazy"`` fetches the ranges that
                ``transform`` reads, when it does, for a small part of large objects.
            prefetch_bytes: bound, for each iterator (so for each worker), on the bodies fetched ahead. An object that
                is larger is read alone.
            prefetch_objects: bound on their number.
            rank: this process' number in the job, with ``world_size``; None means to find out at each iteration.
            world_size: how many processes share the objects.
            select: keeps the objects for which it is true, such as ``lambda info: info.key.endswith(".jpg")``. Called
                at construction only.
            allow_empty: accept that there is no object.

        Raises:
            ConfigError: the address or a setting is wrong.
            NotFoundError: no bucket, or no object under the prefix.
            StoreError: the listing failed.
        """
        budget = PrefetchBudget(bytes=prefetch_bytes, objects=prefetch_objects)
        given = Rank.given(rank, world_size)
        source = ObjectSource.under_prefix(uri, config, select=select, allow_empty=allow_empty)
        return cls(source, transform, fetch=fetch, budget=budget, rank=given)

    @overload
    @classmethod
    def from_objects(
        cls,
        uris: Iterable[str],
        *,
        config: StoreConfig | None = ...,
        fetch: Fetch = ...,
        prefetch_bytes: int = ...,
        prefetch_objects: int = ...,
        rank: int | None = ...,
        world_size: int | None = ...,
    ) -> IterableDataset[bytes]: ...

    @overload
    @classmethod
    def from_objects(
        cls,
        uris: Iterable[str],
        *,
        transform: Callable[[ObjectReader], T],
        config: StoreConfig | None = ...,
        fetch: Fetch = ...,
        prefetch_bytes: int = ...,
        prefetch_objects: int = ...,
        rank: int | None = ...,
        world_size: int | None = ...,
    ) -> IterableDataset[T]: ...

    @classmethod
    def from_objects(
        cls,
        uris: Iterable[str],
        *,
        transform: Callable[[ObjectReader], Any] = read_bytes,
        config: StoreConfig | None = None,
        fetch: Fetch = "whole",
        prefetch_bytes: int = PREFETCH_BYTES,
        prefetch_objects: int = PREFETCH_OBJECTS,
        rank: int | None = None,
        world_size: int | None = None,
    ) -> IterableDataset[Any]:
        """Make a data set of the objects with these addresses, in this order, without a request.

        An object that does not exist raises ``NotFoundError`` when it is read. For the arguments see ``from_prefix``.

        Raises:
            ConfigError: no address, one that names no object, or addresses in more than one bucket.
        """
        budget = PrefetchBudget(bytes=prefetch_bytes, objects=prefetch_objects)
        given = Rank.given(rank, world_size)
        return cls(ObjectSource.of_objects(uris, config), transform, fetch=fetch, budget=budget, rank=given)

    @property
    def keys(self) -> KeyColumn:
        """The objects' names over all ranks and workers, in order."""
        return self._source.listing.keys

    @property
    def listing(self) -> Listing:
        """The objects' names and sizes in columns, over all ranks and workers."""
        return self._source.listing

    def __iter__(self) -> Iterator[T_co]:
        """Begin to yield the calling process' share; reads begin with the first ``next``."""
        shard = Shard.current(given=self._rank, inherited=self._inherited_rank)
        return self._samples(shard.places(len(self._source.listing)))

    def _samples(self, positions: Iterable[int]) -> Iterator[T_co]:
        with closing(open_readers(self._source, positions, fetch=self._fetch, budget=self._budget)) as readers:
            for reader in readers:
                yield apply_transform(self._transform, reader)

    def __getstate__(self) -> dict[str, object]:
        # A spawned worker has no torch.distributed of its own: the data set tells it the rank of who sent it.
        return self.__dict__ | {"_inherited_rank": Rank.initialised() or self._inherited_rank}

    def __repr__(self) -> str:
        return f"IterableDataset({len(self._source.listing)} objects in {self._source.root})"
