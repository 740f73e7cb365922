"""A store whose answers arrive when somebody waits for them, and that remembers what was asked of it and when."""

from __future__ import annotations

from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field

from torchbucket.store import ObjectData, ObjectInfo, Read
from torchbucket.store.protocol import ListedPage


@dataclass
class Request:
    """One call of ``submit_read``."""

    key: str
    start: int
    stop: int | None
    version: str | None
    size_bytes: int | None
    into_bytes: int | None
    future: Future[ObjectData]


@dataclass
class ScriptedStore:
    """Holds bodies by key; ``failures`` has what reading a key raises, ``versions`` what it reports as its version."""

    bodies: dict[str, bytes]
    failures: dict[str, Exception] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    waits: list[list[str]] = field(default_factory=list)
    heads: list[str] = field(default_factory=list)
    announced_bytes: int | None = None  # a size that every object claims to have

    uri = "memory://scripted"
    lists_by_walking = False

    def list(self, prefix: str = "", *, start_after: str = ""):
        for key in sorted(self.bodies, key=str.encode):
            if key.startswith(prefix):
                yield self._info(key)

    def submit_list_page(self, prefix: str = "", *, start_after: str = "") -> Future[ListedPage]:
        infos = [info for info in self.list(prefix) if info.key > start_after]
        page: Future[ListedPage] = Future()
        page.set_result(
            ListedPage(
                keys=[info.key for info in infos],
                sizes_bytes=[info.size_bytes for info in infos],
                versions=[info.version for info in infos],
                complete=True,
                resume_after=infos[-1].key if infos else start_after,
            )
        )
        return page

    def head(self, key: str) -> ObjectInfo:
        self.heads.append(key)
        return self._info(key)

    def submit_read(self, read: Read) -> Future[ObjectData]:
        future = _AnsweredWhenWaitedFor(self, read.key, read.start, read.stop, read.into)
        into_bytes = None if read.into is None else len(read.into)
        self.requests.append(
            Request(read.key, read.start, read.stop, read.version, read.size_bytes, into_bytes, future)
        )
        return future

    def outstanding(self) -> list[str]:
        """Keys of the reads that are neither answered nor cancelled, oldest first."""
        return [request.key for request in self.requests if not request.future.done()]

    def cancelled(self) -> list[str]:
        return [request.key for request in self.requests if request.future.cancelled()]

    def _info(self, key: str) -> ObjectInfo:
        size_bytes = len(self.bodies[key]) if self.announced_bytes is None else self.announced_bytes
        return ObjectInfo(key=key, size_bytes=size_bytes, version=self.versions.get(key, "1"))


class _AnsweredWhenWaitedFor(Future):
    def __init__(self, store: ScriptedStore, key: str, start: int, stop: int | None, into: memoryview | None) -> None:
        super().__init__()
        self._store, self._key, self._range, self._into = store, key, slice(start, stop), into

    def result(self, timeout: float | None = None) -> ObjectData:
        if self.cancelled():
            raise CancelledError
        if not self.done():
            self._store.waits.append(self._store.outstanding())
            self._answer()
        return super().result(timeout)

    def _answer(self) -> None:
        failure = self._store.failures.get(self._key)
        if failure is not None:
            self.set_exception(failure)
            return
        data: bytes | memoryview = self._store.bodies[self._key][self._range]
        if self._into is not None:
            self._into[: len(data)] = data
            data = self._into[: len(data)]
        self.set_result(ObjectData(info=self._store._info(self._key), start=self._range.start, data=data))
