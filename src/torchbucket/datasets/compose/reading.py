"""Neighbouring objects composed into one temporary object each, which is read at once and taken apart again."""

from __future__ import annotations

import os
import warnings
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

from torchbucket.datasets.compose.options import Compose
from torchbucket.datasets.source import ObjectSource, read_result
from torchbucket.datasets.temporaries.living import LivingTemporaries
from torchbucket.errors import (
    ConfigError,
    NotFoundError,
    ObjectChangedError,
    PermissionDeniedError,
    StoreError,
    TruncatedError,
    UnsupportedError,
)
from torchbucket.files.reader import ObjectReader
from torchbucket.listing import Listing
from torchbucket.store import Read, open_store
from torchbucket.store.protocol import ObjectData, ObjectInfo
from torchbucket.store.store_future import submit_to
from torchbucket.store.thread_pool import ThreadPool

__all__ = ["check_compose", "composed_readers", "group_positions"]

_SCHEMES: Final = ("gs", "memory")


def check_compose(source: ObjectSource) -> None:
    """Refuse a data set whose objects cannot be composed.

    Raises:
        UnsupportedError: the store has no request that joins objects.
        ConfigError: sizes and versions are not known.
    """
    root = source.root.root
    if source.root.scheme not in _SCHEMES:
        raise UnsupportedError(
            f"fetch=Compose(…): {root} joins no objects into one; only Cloud Storage does. Use fetch='whole', which "
            "reads many objects at once",
            operation="compose",
            uri=root,
        )
    if not len(source.listing):
        return
    if source.listing.versions is None or source.listing.size_bytes(0) is None:
        raise ConfigError(
            "fetch=Compose(…) takes a joined object apart by its parts' sizes, and pins them to their versions, so it "
            "needs both: use from_prefix, or a manifest with versions; or fetch='whole'"
        )


def group_positions(
    listing: Listing, positions: Iterable[int], *, maximum_bytes: int, maximum_objects: int
) -> Iterator[list[int]]:
    """Yield the positions in their order, in groups as long as the bounds allow.

    An object that is larger than ``maximum_bytes``, or has no size or version in the listing, is a group of its own.
    """
    group: list[int] = []
    group_bytes = 0
    for position in positions:
        size_bytes = listing.size_bytes(position)
        alone = size_bytes is None or size_bytes > maximum_bytes or listing.version(position) is None
        if group and (alone or len(group) >= maximum_objects or group_bytes + (size_bytes or 0) > maximum_bytes):
            yield group
            group, group_bytes = [], 0
        group.append(position)
        group_bytes += size_bytes or 0
        if alone:
            yield group
            group, group_bytes = [], 0
    if group:
        yield group


def composed_readers(
    source: ObjectSource,
    positions: Iterable[int],
    compose: Compose,
    *,
    budget_bytes: int,
    budget_objects: int | None,
) -> Generator[ObjectReader, None, None]:
    """Yield an open reader for each position, in order; see ``prefetch.open_readers``.

    A group that cannot be composed because one of its objects is gone or was overwritten is read object by object,
    pinned to the listed versions, so that those before it are yielded and the error names the right one.

    Raises:
        PermissionDeniedError: temporary objects cannot be written or removed.
        StoreError: an object could not be read, or the server could not join them.
    """
    groups = group_positions(
        source.listing,
        positions,
        maximum_bytes=min(compose.maximum_bytes, budget_bytes),
        maximum_objects=min(compose.maximum_objects, budget_objects or compose.maximum_objects),
    )
    composing = _Composing(source, compose)
    queue: deque[_Group] = deque()
    queued_bytes = queued_objects = 0
    following = next(groups, None)
    try:
        while True:
            while following is not None:
                size_bytes = sum(source.listing.size_bytes(position) or 0 for position in following)
                within = queued_bytes + size_bytes <= budget_bytes
                if budget_objects is not None:
                    within = within and queued_objects + len(following) <= budget_objects
                if queue and not within:
                    break
                queue.append(composing.begin(following, size_bytes))
                queued_bytes += size_bytes
                queued_objects += len(following)
                following = next(groups, None)
            if not queue:
                break
            group = queue[0]
            bodies = composing.finish(group)
            queue.popleft()
            queued_bytes -= group.size_bytes
            queued_objects -= len(group.positions)
            for position, data in zip(group.positions, bodies, strict=True):
                yield ObjectReader.from_data(data, uri=source.uri(position))
            del group, bodies
        composing.check_removals()
    finally:
        composing.close(queue)


class _Joined(NamedTuple):
    key: str
    future: Future[ObjectData]


@dataclass(slots=True)
class _Group:
    """Objects that are on their way together."""

    positions: list[int]
    infos: list[ObjectInfo]
    size_bytes: int
    joining: Future[_Joined] | None = None
    single: list[Future[ObjectData]] = field(default_factory=list)

    def cancel(self) -> None:
        joining = self.joining
        if joining is not None and not joining.cancel() and joining.done() and joining.exception() is None:
            joining.result().future.cancel()
        for future in self.single:
            future.cancel()


class _Composing:
    """The requests of one iterator that join, read and remove."""

    def __init__(self, source: ObjectSource, compose: Compose) -> None:
        self._source = source
        self._store = source.store
        self._pool = ThreadPool(compose.requests_in_flight, thread_name_prefix="torchbucket-compose")
        self._temporaries = LivingTemporaries(
            lambda: open_store(source.root, source.config), self._store, compose.prefix
        )
        self._removals: deque[Future[None]] = deque()
        self._pid = os.getpid()

    def begin(self, positions: list[int], size_bytes: int) -> _Group:
        """Begin to fetch a group; one object alone is read as it is."""
        listing = self._source.listing
        infos = [
            ObjectInfo(
                key=listing.keys[position],
                size_bytes=listing.size_bytes(position) or 0,
                version=listing.version(position),
            )
            for position in positions
        ]
        group = _Group(positions, infos, size_bytes)
        if len(positions) > 1 and size_bytes:
            group.joining = submit_to(self._pool, partial(self._join, group))
        else:
            self._read_singly(group)
        return group

    def finish(self, group: _Group) -> list[ObjectData]:
        """Wait for a group; return its objects' bodies in order."""
        self.check_removals(wait=False)
        if group.joining is not None:
            try:
                return self._taken_apart(group, group.joining.result())
            except (NotFoundError, ObjectChangedError):
                # Which object it is, and whether all of them are readable nevertheless, their own reads tell.
                self._read_singly(group)
        return [
            read_result(future, self._source.uri(position))
            for position, future in zip(group.positions, group.single, strict=True)
        ]

    def check_removals(self, *, wait: bool = True) -> None:
        """Raise what made a removal fail; ``wait`` says to wait for those under way."""
        while self._removals and (wait or self._removals[0].done()):
            try:
                self._removals.popleft().result()
            except PermissionDeniedError as error:
                raise self._denied(error) from error
            except StoreError:
                pass  # `close` tries again, and warns

    def close(self, groups: Iterable[_Group]) -> None:
        """Drop what is under way and remove every temporary object; warn of those that could not be removed."""
        if self._pid != os.getpid():
            return  # a forked child: they are its parent's
        for group in groups:
            group.cancel()
        try:
            left = self._temporaries.close()
        finally:
            self._pool.shutdown(wait=False, cancel_futures=True)
        if left:
            warnings.warn(
                f"{len(left)} temporary objects could not be removed, such as {self._source.root.root}/{left[0]}; "
                "remove them with `torchbucket sweep-temporaries`",
                RuntimeWarning,
                stacklevel=2,
            )

    def _join(self, group: _Group) -> _Joined:
        """Compose a group and begin to read what was made; runs on a thread of the pool."""
        with self._temporaries.making() as key:
            try:
                made = self._store.compose(group.infos, key)
            except PermissionDeniedError as error:
                raise self._denied(error) from error
        read = Read(key=key, size_bytes=group.size_bytes, version=made.version)
        return _Joined(key, self._store.submit_read(read))

    def _taken_apart(self, group: _Group, joined: _Joined) -> list[ObjectData]:
        data = joined.future.result()
        self._removals.append(submit_to(self._pool, partial(self._temporaries.remove, joined.key)))
        if len(data.data) != group.size_bytes:
            raise TruncatedError(
                f"{self._source.root.root}/{joined.key}: the store answered a read of {group.size_bytes} bytes with "
                f"{len(data.data)}; this is a fault of the store, please report it",
                operation="read",
                uri=self._source.uri(group.positions[0]),
            )
        whole = memoryview(data.data)
        bodies, start = [], 0
        for info in group.infos:
            bodies.append(ObjectData(info=info, start=0, data=whole[start : start + info.size_bytes]))
            start += info.size_bytes
        return bodies

    def _read_singly(self, group: _Group) -> None:
        for position, info in zip(group.positions, group.infos, strict=True):
            size_bytes = self._source.listing.size_bytes(position)
            group.single.append(
                self._store.submit_read(Read(key=info.key, size_bytes=size_bytes, version=info.version))
            )

    def _denied(self, error: PermissionDeniedError) -> PermissionDeniedError:
        return PermissionDeniedError(
            f"fetch=Compose(…) needs permission to create and delete objects in {self._source.root.root}, where its "
            f"temporary objects live: {error}. Grant it, or use fetch='whole', which only reads",
            operation=error.operation,
            uri=error.uri,
            status=error.status,
            code=error.code,
            attempts=error.attempts,
        )
