"""Reads under way: whole objects fetched concurrently, handed out in order, within a budget of bytes and objects."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final, Generic, Literal, Protocol, TypeVar

from torchbucket.datasets.compose.options import Compose
from torchbucket.datasets.compose.reading import composed_readers
from torchbucket.datasets.source import ObjectSource, read_result
from torchbucket.errors import ConfigError
from torchbucket.files.content import check_complete
from torchbucket.files.reader import ObjectReader
from torchbucket.store.protocol import ObjectData

__all__ = [
    "PREFETCH_BYTES",
    "PREFETCH_OBJECTS",
    "Fetch",
    "PrefetchBudget",
    "ReadQueue",
    "check_fetch",
    "open_readers",
]

P = TypeVar("P")
P_contra = TypeVar("P_contra", contravariant=True)

Fetch = Literal["whole", "lazy"] | Compose
"""How objects are read: all of each ahead of its use, in ranges when they are used, or many joined by the server."""

PREFETCH_BYTES: Final = 256 << 20
PREFETCH_OBJECTS: Final = 128


def check_fetch(fetch: Fetch) -> Fetch:
    """Return ``fetch``; raise ``ConfigError`` unless it is one of the ways to read an object."""
    if not isinstance(fetch, Compose) and fetch not in ("whole", "lazy"):
        raise ConfigError(f"fetch must be 'whole' or 'lazy', or Compose(…) on Cloud Storage; got {fetch!r}")
    return fetch


@dataclass(frozen=True, kw_only=True, slots=True)
class PrefetchBudget:
    """Bounds what is fetched ahead of the consumer by one iterator or one batch.

    Args:
        bytes: bound on the bodies that were asked for and not yet handed out. An object that is larger than that is
            read alone. One of unknown size counts as the largest that this process has read so far, and before the
            first as a sixteenth of the bound. *Source* of the default, 256 MiB: the 64 connections of
            ``StoreConfig.concurrency`` move 128 MiB at 100 MiB/s each in the 20 ms that a first byte takes, so twice
            that keeps them busy while the consumer takes one object after another.
        objects: bound on their number; None means no bound. *Source* of the default, 128: twice
            ``StoreConfig.concurrency``, so that a slow object at the head of the queue does not idle the connections.

    Raises:
        ConfigError: a bound is not positive.
    """

    bytes: int = PREFETCH_BYTES
    objects: int | None = PREFETCH_OBJECTS

    def __post_init__(self) -> None:
        if self.bytes < 1:
            raise ConfigError(f"prefetch_bytes must be at least 1; got {self.bytes}")
        if self.objects is not None and self.objects < 1:
            raise ConfigError(f"prefetch_objects must be at least 1; got {self.objects}")


def open_readers(
    source: ObjectSource, positions: Iterable[int], *, fetch: Fetch, budget: PrefetchBudget
) -> Generator[ObjectReader, None, None]:
    """Yield an open reader for each position, in order.

    With ``fetch="whole"`` the bodies of those to come are on their way, as far as the budget allows. Before a reader is
    handed out its body leaves the budget and more is asked for, so that transfers go on while the consumer works. With
    ``Compose`` the same holds for the joined objects, each of which is several of these.

    Whatever ends the iteration (the last object, an error, ``close``) drops every read that is left.

    Raises:
        StoreError: an object could not be read; the error names it.
    """
    if fetch == "lazy":
        for position in positions:
            yield source.open_lazily(position)
        return
    if isinstance(fetch, Compose) and fetch.maximum_bytes:
        yield from composed_readers(source, positions, fetch, budget_bytes=budget.bytes, budget_objects=budget.objects)
        return
    following = iter(positions)
    yield from ReadQueue(source, lambda: next(following, None), budget).readers()


class ReadSource(Protocol[P_contra]):
    """Objects, by their positions in a listing for example; what the methods say: ``ObjectSource``."""

    @property
    def largest_bytes(self) -> int | None: ...

    def uri(self, position: P_contra, /) -> str: ...

    def size_bytes(self, position: P_contra, /) -> int | None: ...

    def note_size(self, size_bytes: int) -> None: ...

    def submit_read(self, position: P_contra, /) -> Future[ObjectData]: ...


class ReadQueue(Generic[P]):
    """The reads of whole objects that were submitted and not yet handed out, oldest first.

    Args:
        source: the objects.
        next_position: says which object to read next; None where that is not known, or never will be.
        budget: bounds the reads.
    """

    def __init__(self, source: ReadSource[P], next_position: Callable[[], P | None], budget: PrefetchBudget) -> None:
        self._source = source
        self._next_position = next_position
        self._budget = budget
        self._following: P | None = None  # told already, and beyond the budget for now
        self._pending: deque[_Pending[P]] = deque()
        self._pending_bytes = 0
        self._pid = os.getpid()

    def readers(self) -> Generator[ObjectReader, None, None]:
        """Yield an open reader for each object, in order; whatever ends it drops every read that is left."""
        try:
            while self.fill():
                reader = self.next_reader()
                yield reader
                del reader  # the consumer alone decides how long a body lives
        finally:
            self.drop()

    def fill(self) -> bool:
        """Submit reads while the budget allows, and one in any case where none is left; say whether there is any."""
        while True:
            if self._following is None:
                self._following = self._next_position()
                if self._following is None:
                    break
            counted_bytes = self._counted_bytes(self._following)
            if self._pending and not self._fits(counted_bytes):
                break
            self._pending.append(self._submitted(self._following, counted_bytes))
            self._pending_bytes += counted_bytes
            self._following = None
        return bool(self._pending)

    def next_reader(self) -> ObjectReader:
        """Wait for the oldest read and open what it brought; the next ones are on their way meanwhile."""
        self.fill()
        uri, data = self._take()
        self.fill()
        return ObjectReader.from_data(data, uri=uri)

    def _take(self) -> tuple[str, ObjectData]:
        """Wait for the oldest read; return the object's address and its body, which is no longer counted."""
        oldest = self._pending[0]
        uri = self._source.uri(oldest.position)
        data = read_result(oldest.future, uri)
        self._pending.popleft()
        self._pending_bytes -= oldest.counted_bytes
        self._source.note_size(data.info.size_bytes)
        check_complete(data, uri)
        return uri, data

    def drop(self) -> None:
        """Cancel what is left. A forked child leaves its parent's reads alone: they are not its own to cancel."""
        if self._pid == os.getpid():
            for pending in self._pending:
                pending.future.cancel()
        self._pending.clear()

    def _submitted(self, position: P, counted_bytes: int) -> _Pending[P]:
        try:
            future = self._source.submit_read(position)
        except Exception as error:  # noqa: BLE001  # for whoever asks for this object, which was only foreseen perhaps
            future = Future()
            future.set_exception(error)
        return _Pending(position, future, counted_bytes)

    def _counted_bytes(self, position: P) -> int:
        size_bytes = self._source.size_bytes(position)
        if size_bytes is None:
            size_bytes = self._source.largest_bytes
        return self._budget.bytes // 16 if size_bytes is None else size_bytes

    def _fits(self, counted_bytes: int) -> bool:
        if self._budget.objects is not None and len(self._pending) >= self._budget.objects:
            return False
        return self._pending_bytes + counted_bytes <= self._budget.bytes


@dataclass(slots=True)
class _Pending(Generic[P]):
    position: P
    future: Future[ObjectData]
    counted_bytes: int
