"""The stream that lists while it reads: its first sample waits for one page of names and not for all of them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future
from contextlib import closing
from dataclasses import replace
from typing import Any, TypeAlias, Unpack

from typing_extensions import TypeVar

from torchbucket.datasets.epochs.sharding import Shard, check_even
from torchbucket.datasets.iteration import Iteration
from torchbucket.datasets.options import settings_of, shows_options
from torchbucket.datasets.prefetch import ReadQueue
from torchbucket.datasets.settings import IterableOptions, IterableSettings, Select
from torchbucket.datasets.sharded_stream import ShardedStream
from torchbucket.datasets.source import NONE_SELECTED, nothing_found
from torchbucket.datasets.transform import apply_transform, read_bytes
from torchbucket.errors import ConfigError
from torchbucket.files.reader import ObjectReader
from torchbucket.public import public
from torchbucket.store.list_page import infos_of
from torchbucket.store.protocol import ListedPage, ObjectData, ObjectInfo, Read, Store
from torchbucket.store.shared import shared_store
from torchbucket.store.temporary_names import is_temporary
from torchbucket.uri import Address, ObjectURI

__all__ = ["PrefixStream"]

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T", default=bytes)

_Found: TypeAlias = ObjectInfo | Future[ListedPage]


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

    def __iter__(self) -> Iteration[T_co]:
        """Begin to list and to yield the calling process' share.

        Raises:
            NotFoundError: when the listing is over and had no object, unless ``allow_empty``.
            StoreError: the listing or a read failed.
        """
        return Iteration(self._samples(self._shard()))

    def set_epoch(self, epoch: int) -> None:
        """Nothing to name: every pass has the same order. For frameworks, which name epochs."""
        super().set_epoch(epoch)

    def _samples(self, shard: Shard) -> Generator[T_co, None, None]:
        objects = _ListedObjects(self._location, self._settings)
        with closing(self._found(objects.store, shard)) as found, closing(objects.readers(found)) as readers:
            for reader in readers:
                yield apply_transform(self._transform, reader)
                del reader  # the consumer alone decides how long a body lives

    def _found(self, store: Store, shard: Shard) -> Generator[_Found, None, None]:
        """A reader's objects, and in between the next page of the listing, again and again, until it has arrived."""
        seen = kept = 0
        pages = self._pages(store)
        for page in pages:
            if isinstance(page, Future):
                yield page
                continue
            for info in page:
                if is_temporary(info.key):
                    continue
                seen += 1
                if self._select is None or self._select(info):
                    if kept % shard.readers == shard.first:
                        yield info
                    kept += 1
        if not kept and not self._allow_empty:
            raise nothing_found(str(self._location), seen, NONE_SELECTED)

    def _pages(self, store: Store) -> Iterator[Iterable[ObjectInfo] | Future[ListedPage]]:
        prefix = self._location.key
        if store.lists_by_walking:
            yield store.list(prefix)
            return
        following = store.submit_list_page(prefix)
        try:
            while True:
                while not following.done():
                    yield following
                page = following.result()
                if not page.complete:
                    following = store.submit_list_page(prefix, start_after=page.resume_after)
                yield infos_of(page)
                if page.complete:
                    return
        finally:
            following.cancel()

    def __repr__(self) -> str:
        return f"PrefixStream({str(self._location)!r})"


class _ListedObjects:
    """The objects of a listing that tells them one after another."""

    def __init__(self, location: ObjectURI, settings: IterableSettings) -> None:
        self.store = shared_store(location, settings.config)
        self._base = str(replace(location, key=""))
        self._settings = settings
        self.largest_bytes: int | None = None  # asked for where a size is not known

    def readers(self, found: Iterator[_Found]) -> Generator[ObjectReader, None, None]:
        """Yield an open reader for each object; no object that is known already waits for the listing."""
        awaited: Future[ListedPage] | None = None

        def next_info() -> ObjectInfo | None:
            nonlocal awaited
            info = next(found, None)
            awaited = info if isinstance(info, Future) else None
            return None if isinstance(info, Future) else info

        queue = ReadQueue(self, next_info, self._settings.budget)
        while True:
            if self._settings.fetch == "lazy":
                while (info := next_info()) is not None:
                    yield self._open_lazily(info)
            else:
                yield from queue.readers()
            if awaited is None:
                return
            awaited.exception()  # waits; what it is, its page tells

    def uri(self, info: ObjectInfo) -> str:
        return self._base + info.key

    def size_bytes(self, info: ObjectInfo) -> int:
        return info.size_bytes

    def note_size(self, size_bytes: int) -> None:
        """Nothing to remember: the listing tells every size."""

    def submit_read(self, info: ObjectInfo) -> Future[ObjectData]:
        return self.store.submit_read(Read(key=info.key, size_bytes=info.size_bytes, version=self._version(info)))

    def _open_lazily(self, info: ObjectInfo) -> ObjectReader:
        return ObjectReader.lazy(
            self.store, info.key, uri=self.uri(info), size_bytes=info.size_bytes, version=self._version(info)
        )

    def _version(self, info: ObjectInfo) -> str | None:
        return info.version if self._settings.pin_versions else None
