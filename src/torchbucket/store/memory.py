"""Objects in this process's memory, for tests and examples."""

from __future__ import annotations

import itertools
import threading
import time
from bisect import bisect_left
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass

from torchbucket.config import StoreConfig
from torchbucket.errors import NotFoundError, PreconditionFailedError
from torchbucket.store.base import BaseStore, BaseWriter, check_key, check_range, check_same, fit, settled
from torchbucket.store.forking import renew_after_fork
from torchbucket.store.protocol import ObjectData, ObjectInfo, OpenUpload
from torchbucket.uri import ObjectURI, key_bytes

__all__ = ["MemoryStore"]


@dataclass(frozen=True, slots=True)
class _Held:
    info: ObjectInfo
    data: bytes


class _Bucket:
    """Objects by key, and their keys in byte order, made when a listing wants them."""

    def __init__(self) -> None:
        self.objects: dict[str, _Held] = {}
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

    def list(self, prefix: str = "", *, start_after: str = "") -> Iterator[ObjectInfo]:
        """Yield the objects under a prefix as they were when the listing began."""
        bucket, first = self._bucket, max(key_bytes(prefix), key_bytes(start_after))
        with bucket.lock:
            if bucket.order is None:
                bucket.order = sorted((key_bytes(key), key) for key in bucket.objects)
            order = bucket.order
            found = []
            for _, key in itertools.islice(order, bisect_left(order, (first, "")), None):
                if not key.startswith(prefix):
                    break
                if key != start_after:
                    found.append(bucket.objects[key].info)
        yield from found

    def head(self, key: str) -> ObjectInfo:
        """Describe one object."""
        return self._get(key, "head").info

    def submit_read(
        self,
        key: str,
        *,
        start: int = 0,
        stop: int | None = None,
        into: memoryview | None = None,
        size_bytes: int | None = None,
        version: str | None = None,
    ) -> Future[ObjectData]:
        """Read at once; the future is done."""
        check_key(key)
        target = check_range(start, stop, size_bytes, into)

        def work() -> ObjectData:
            held = self._get(key, "read")
            check_same(self.address(key), held.info, size_bytes=size_bytes, version=version)
            data: bytes | memoryview = held.data[start:stop]
            if target is not None:
                view = fit(target, len(data))
                view[:] = data
                data = view
            return ObjectData(info=held.info, start=start, data=data)

        return settled(work)

    def open_writer(self, key: str, *, if_absent: bool = False) -> _MemoryWriter:
        """Begin a write; its content is held aside until it is closed."""
        check_key(key)
        return _MemoryWriter(self, key, if_absent)

    def delete(self, key: str) -> None:
        """Remove an object if it is there."""
        check_key(key)
        with self._bucket.lock:
            if self._bucket.objects.pop(key, None) is not None:
                self._bucket.order = None

    def copy(self, source_key: str, target_key: str) -> ObjectInfo:
        """Copy an object; the two share their immutable bytes."""
        check_key(target_key)
        return self._put(target_key, self._get(source_key, "copy").data, if_absent=False)

    def list_uploads(self, prefix: str = "") -> Iterator[OpenUpload]:
        """Yield nothing: a write that is not closed is seen by its writer alone."""
        key_bytes(prefix)
        return iter(())

    def abort_upload(self, upload: OpenUpload) -> None:
        """Do nothing: there are no open uploads."""

    def close(self) -> None:
        """Do nothing: the objects stay until the process ends."""

    def _get(self, key: str, operation: str) -> _Held:
        check_key(key)
        held = self._bucket.objects.get(key)
        if held is None:
            raise NotFoundError(
                f"{operation} {self.address(key)}: there is no such object in this process's memory; write it first "
                "(each process has its own)",
                operation=operation,
                uri=self.address(key),
            )
        return held

    def _put(self, key: str, data: bytes, *, if_absent: bool) -> ObjectInfo:
        bucket = self._bucket
        info = ObjectInfo(key=key, size_bytes=len(data), version=str(next(_versions)), last_modified_s=time.time())
        with bucket.lock:
            if key not in bucket.objects:
                bucket.order = None
            elif if_absent:
                raise PreconditionFailedError(
                    f"write {self.address(key)}: the object exists and if_absent was asked for; delete it or write "
                    "without if_absent",
                    operation="write",
                    uri=self.address(key),
                )
            bucket.objects[key] = _Held(info, data)
        return info


class _MemoryWriter(BaseWriter):
    def __init__(self, store: MemoryStore, key: str, if_absent: bool) -> None:
        super().__init__(store.address(key))
        self._store, self._key, self._if_absent = store, key, if_absent
        self._buffer = bytearray()

    def _write(self, view: memoryview) -> None:
        self._buffer += view

    def _publish(self) -> ObjectInfo:
        info = self._store._put(self._key, bytes(self._buffer), if_absent=self._if_absent)
        self._buffer = bytearray()
        return info

    def _discard(self) -> None:
        self._buffer = bytearray()
