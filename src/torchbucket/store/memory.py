"""Objects in this process's memory, for tests and examples."""

# ruff: noqa: ARG002  # what a base class asks for is not always of use
from __future__ import annotations

import itertools
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from torchbucket.config import StoreConfig
from torchbucket.errors import NotFoundError
from torchbucket.store.arguments import check_key, first_bytes
from torchbucket.store.base import BaseStore, check_same
from torchbucket.store.conditions import Condition, unmet
from torchbucket.store.forking import renew_after_fork
from torchbucket.store.list_page import page_of
from torchbucket.store.protocol import ListedPage, ObjectData, ObjectInfo, OpenUpload, Read, Target
from torchbucket.store.scatter import check_within
from torchbucket.store.store_future import completed
from torchbucket.store.writer import BaseWriter
from torchbucket.uri import ObjectURI, key_bytes

__all__ = ["MemoryStore"]


@dataclass(frozen=True, slots=True)
class _Stored:
    info: ObjectInfo
    data: bytes


class _Bucket:
    """Objects by key, and their keys in byte order, made when a listing wants them."""

    def __init__(self) -> None:
        self.objects: dict[str, _Stored] = {}
        self.order: list[tuple[bytes, str]] | None = None
        self.renew()
        renew_after_fork(self)

    def renew(self) -> None:
        self.lock = threading.Lock()


_buckets: dict[str, _Bucket] = {}
_versions = itertools.count(1)


class MemoryStore(BaseStore):
    """A store in memory: all stores opened by the same name in one process see the same objects.

    Another process, also one that is forked, has objects of its own from then on. A name exists as soon as it is used.
    """

    def __init__(self, uri: ObjectURI, config: StoreConfig) -> None:
        super().__init__(uri.root, config)
        self._bucket = _buckets.setdefault(uri.bucket, _Bucket())

    @property
    def least_copy_bytes(self) -> int:
        return 1

    def list(self, prefix: str = "", *, start_after: str = "") -> Iterator[ObjectInfo]:
        """Yield the objects under a prefix as they were when the listing began."""
        yield from self._infos(prefix, start_after, None)

    def submit_list_page(self, prefix: str = "", *, start_after: str = "") -> Future[ListedPage]:
        """List one page at once; the future is done."""
        limit = self._config.list_page_size

        def work() -> ListedPage:
            return page_of(self._infos(prefix, start_after, limit + 1), limit, start_after)

        return completed(work)

    def _infos(self, prefix: str, start_after: str, limit: int | None) -> Sequence[ObjectInfo]:
        bucket, first = self._bucket, max(key_bytes(prefix), key_bytes(start_after))
        found: list[ObjectInfo] = []
        with bucket.lock:
            if bucket.order is None:
                bucket.order = sorted((key_bytes(key), key) for key in bucket.objects)
            order = bucket.order
            for index in range(bisect_left(order, (first, "")), len(order)):
                key = order[index][1]
                if not key.startswith(prefix) or len(found) == limit:
                    break
                if key != start_after:
                    found.append(bucket.objects[key].info)
        return found

    def head(self, key: str) -> ObjectInfo:
        return self._get(key, "head").info

    def submit_read(self, read: Read) -> Future[ObjectData]:
        """Read at once; the future is done."""

        def work() -> ObjectData:
            stored = self._get(read.key, "read")
            check_same(self.address(read.key), stored.info, size_bytes=read.size_bytes, version=read.version)
            data: bytes | memoryview = stored.data[read.start : read.stop]
            if read.into is not None:
                view = first_bytes(read.into, len(data))
                view[:] = data
                data = view
            return ObjectData(info=stored.info, start=read.start, data=data)

        return completed(work)

    def _fill(
        self, read: Read, targets: Sequence[Target], gap_bytes: int, filled: Callable[[int], None] | None
    ) -> Future[ObjectInfo]:
        def work() -> ObjectInfo:
            stored = self._get(read.key, "read")
            check_same(self.address(read.key), stored.info, size_bytes=read.size_bytes, version=read.version)
            check_within(self.address(read.key), stored.info, targets)
            content = memoryview(stored.data)
            for position, (start, memory) in enumerate(targets):
                memory[:] = content[start : start + len(memory)]
                if filled is not None:
                    filled(position)
            return stored.info

        return completed(work)

    def _open_writer(self, key: str, size_hint: int | None, condition: Condition | None) -> _MemoryWriter:
        return _MemoryWriter(self, key, condition)

    def _delete(self, key: str, condition: Condition | None) -> None:
        with self._bucket.lock:
            stored = self._bucket.objects.get(key)
            if stored is None:
                return
            if condition is not None and stored.info.version != condition.version:
                raise unmet("delete", self.address(key), condition)
            del self._bucket.objects[key]
            self._bucket.order = None

    def copy(self, source_key: str, target_key: str) -> ObjectInfo:
        """Copy an object; the two share their immutable bytes."""
        check_key(target_key)
        return self._put(target_key, self._get(source_key, "copy").data, None)

    def compose(self, sources: Sequence[ObjectInfo], target_key: str) -> ObjectInfo:
        check_key(target_key)
        pieces = []
        for source in sources:
            stored = self._get(source.key, "compose")
            check_same(
                self.address(source.key), stored.info, size_bytes=None, version=source.version, operation="compose"
            )
            pieces.append(stored.data)
        return self._put(target_key, b"".join(pieces), None)

    def list_uploads(self, prefix: str = "") -> Iterator[OpenUpload]:
        """Yield nothing: a write that is not closed is seen by its writer alone."""
        key_bytes(prefix)
        return iter(())

    def abort_upload(self, upload: OpenUpload) -> None:
        """Do nothing: there are no open uploads."""

    def close(self) -> None:
        """Do nothing: the objects stay until the process ends."""

    def _get(self, key: str, operation: str) -> _Stored:
        check_key(key)
        stored = self._bucket.objects.get(key)
        if stored is None:
            raise NotFoundError(
                f"{operation} {self.address(key)}: there is no such object in this process's memory; write it first "
                "(each process has its own)",
                operation=operation,
                uri=self.address(key),
            )
        return stored

    def _put(self, key: str, data: bytes, condition: Condition | None) -> ObjectInfo:
        bucket = self._bucket
        info = ObjectInfo(key=key, size_bytes=len(data), version=str(next(_versions)), last_modified_s=time.time())
        with bucket.lock:
            stored = bucket.objects.get(key)
            if condition is not None and condition.version != (None if stored is None else stored.info.version):
                raise unmet("write", self.address(key), condition)
            if stored is None:
                bucket.order = None
            bucket.objects[key] = _Stored(info, data)
        return info


class _MemoryWriter(BaseWriter):
    def __init__(self, store: MemoryStore, key: str, condition: Condition | None) -> None:
        super().__init__(store.address(key))
        self._store, self._key, self._condition = store, key, condition
        self._pieces: list[bytes] = []

    def _write(self, view: memoryview) -> None:
        self._pieces.append(bytes(view))

    def _write_range(self, source: ObjectInfo, start: int, stop: int) -> None:
        stored = self._store._get(source.key, "copy")
        uri = self._store.address(source.key)
        check_same(uri, stored.info, size_bytes=source.size_bytes, version=source.version, operation="copy")
        self._pieces.append(stored.data[start:stop])

    def _publish(self) -> ObjectInfo:
        pieces, self._pieces = self._pieces, []
        return self._store._put(self._key, b"".join(pieces), self._condition)

    def _discard(self) -> None:
        self._pieces = []
