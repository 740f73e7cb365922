"""The stream that lists while it reads: its first sample waits for one page of names and not for all of them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future
from dataclasses import replace
from itertools import islice
from typing import Any, Unpack

from typing_extensions import TypeVar

from torchbucket.datasets.epochs.sharding import check_even
from torchbucket.datasets.options import settings_of, shows_options
from torchbucket.datasets.prefetch import ReadQueue
from torchbucket.datasets.settings import IterableOptions, IterableSettings, Select
from torchbucket.datasets.sharded_stream import ShardedStream
from torchbucket.datasets.source import nothing_found
from torchbucket.datasets.transform import apply_transform, read_bytes
from torchbucket.errors import ConfigError
from torchbucket.files.reader import ObjectReader
from torchbucket.public import public
from torchbucket.store.protocol import ObjectData, ObjectInfo, Read
from torchbucket.store.shared import shared_store
from torchbucket.store.temporary_names import is_temporary
from torchbucket.uri import Address, ObjectURI

__all__ = ["PrefixStream"]

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T", default=bytes)


@public
@shows_options(IterableSettings)
class PrefixStream(ShardedStream[T_co]):
    """The objects under a prefix, in byte order of their names, read while they are being listed.

    It delivers what ``IterableDataset.from_prefix`` without ``shuffle`` does, and deals it out to ranks and workers
    alike, each object once. It begins after one page of names, where that waits for the whole listing; so it knows no
    length and no names beforehand, and what needs them is not here: ``shuffle``, ``even``, ``fetch=Compose(…)`` and
    states. torchdata's ``StatefulDataLoader`` resumes it by reading anew what was consumed.

    Every reader (a worker of a rank, or the rank) lists by itself in every pass, one page after another: with many of
    them, or more than one epoch, ``IterableDataset`` or a manifest asks for less. Exactly once holds if all see the
    same names: do not write under the prefix meanwhile.

    Works with fork, forkserver and spawn; pickles without connections and credentials. Make one with ``from_prefix``.
    """

    def __init__(
        self,
        location: ObjectURI,
        transform: Callable[[ObjectReader], T_co],
        settings: IterableSettings,
        *,
        select: Select | None = None,
        allow_empty: bool = False,
    ) -> None:
        if settings.shuffle or check_even(settings.even) is not None or settings.fetch not in ("whole", "lazy"):
            raise ConfigError(
                "PrefixStream: shuffle, even and Compose(…) need the whole listing; use IterableDataset.from_prefix"
            )
        super().__init__(settings)
        self._location = location
        self._transform = transform
        self._settings = settings
        self._select = select
        self._allow_empty = allow_empty

    @classmethod
    def from_prefix(
        cls: type[PrefixStream[Any]],
        uri: Address,
        *,
        transform: Callable[[ObjectReader], T] = read_bytes,  # type: ignore[assignment]  # T, then
        select: Select | None = None,
        allow_empty: bool = False,
        **options: Unpack[IterableOptions],
    ) -> PrefixStream[T]:
        """Make a stream of all objects whose names begin with a prefix, without a request.

        Of the options those that the class says it has not are refused.

        Args:
            uri: such as ``s3://bucket/train/``; plain text.
            transform: makes a sample of an open object; the default gives its content as ``bytes``.
            select: keeps the objects for which it is true; every reader calls it for every object. With spawn and
                forkserver it must be picklable.
            allow_empty: accept that there is no object.
            options: see below.

        Raises:
            ConfigError: the address or a setting is wrong.
        """
        settings = settings_of(IterableSettings, options, cls, "from_prefix")
        return cls(ObjectURI.parse(uri), transform, settings, select=select, allow_empty=allow_empty)

    def __iter__(self) -> Generator[T_co, None, None]:
        """Begin to list and to yield the calling process' share.

        Raises:
            NotFoundError: when the listing is over and had no object, unless ``allow_empty``.
            StoreError: the listing or a read failed.
        """
        shard = self._shard()
        step = shard.rank.world_size * shard.workers
        mine = islice(self._found(), shard.rank.rank + shard.rank.world_size * shard.worker, None, step)
        for reader in self._readers(mine):
            yield apply_transform(self._transform, reader)
            del reader  # the consumer alone decides how long a body lives

    def set_epoch(self, epoch: int) -> None:
        """Nothing to name: every pass has the same order. For frameworks, which name epochs."""
        super().set_epoch(epoch)

    def _found(self) -> Iterator[ObjectInfo]:
        seen = kept = 0
        for info in shared_store(self._location, self._settings.config).list(self._location.key):
            if is_temporary(info.key):
                continue
            seen += 1
            if self._select is None or self._select(info):
                kept += 1
                yield info
        if not kept and not self._allow_empty:
            raise nothing_found(str(self._location), seen)

    def _readers(self, infos: Iterator[ObjectInfo]) -> Iterator[ObjectReader]:
        objects = _FoundObjects(self._location, self._settings, infos)
        if self._settings.fetch == "lazy":
            while (position := objects.next_position()) is not None:
                yield objects.open_lazily(position)
                objects.forget(position)
            return
        queue = ReadQueue(objects, objects.next_position, self._settings.budget)
        handed_out = 0
        try:
            while queue.fill():
                yield queue.next_reader()
                objects.forget(handed_out)
                handed_out += 1
        finally:
            queue.drop()

    def __repr__(self) -> str:
        return f"PrefixStream({str(self._location)!r})"


class _FoundObjects:
    """One reader's objects by the order in which the listing told them, from 0; those handed out are forgotten."""

    def __init__(self, location: ObjectURI, settings: IterableSettings, infos: Iterator[ObjectInfo]) -> None:
        self._store = shared_store(location, settings.config)
        self._base = str(replace(location, key=""))
        self._pinned = settings.pin_versions
        self._infos = infos
        self.largest_bytes: int | None = None  # asked for where a size is not known
        self._listed: dict[int, ObjectInfo] = {}
        self._count = 0

    def next_position(self) -> int | None:
        info = next(self._infos, None)
        if info is None:
            return None
        self._listed[self._count] = info
        self._count += 1
        return self._count - 1

    def forget(self, position: int) -> None:
        del self._listed[position]

    def uri(self, position: int) -> str:
        return self._base + self._listed[position].key

    def size_bytes(self, position: int) -> int:
        return self._listed[position].size_bytes

    def note_size(self, size_bytes: int) -> None:
        """Nothing to remember: the listing tells every size."""

    def submit_read(self, position: int) -> Future[ObjectData]:
        info = self._listed[position]
        return self._store.submit_read(
            Read(key=info.key, size_bytes=info.size_bytes, version=info.version if self._pinned else None)
        )

    def open_lazily(self, position: int) -> ObjectReader:
        info = self._listed[position]
        return ObjectReader.lazy(
            self._store,
            info.key,
            uri=self.uri(position),
            size_bytes=info.size_bytes,
            version=info.version if self._pinned else None,
        )
