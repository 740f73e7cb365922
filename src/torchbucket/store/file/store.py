"""Objects as files below one directory."""

# ruff: noqa: ARG002  # what a base class asks for is not always of use
from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Final, TypeVar

from torchbucket.config import StoreConfig
from torchbucket.errors import NotFoundError, StoreError, UnsupportedError
from torchbucket.store.arguments import check_key, first_bytes
from torchbucket.store.base import BaseStore, check_same
from torchbucket.store.conditions import Condition
from torchbucket.store.file.errors import explained
from torchbucket.store.file.listing import is_being_written, list_files
from torchbucket.store.file.writer import FileWriter, check_condition, described, locked
from torchbucket.store.forking import renew_after_fork
from torchbucket.store.list_page import page_of
from torchbucket.store.protocol import ListedPage, ObjectData, ObjectInfo, OpenUpload, Read, Target
from torchbucket.store.scatter import check_within
from torchbucket.store.store_future import become_store_thread, refuse_to_wait, submit_to
from torchbucket.store.temporary_names import target_of
from torchbucket.store.thread_pool import ThreadPool
from torchbucket.store.writable_bytes import writable_bytes
from torchbucket.uri import ObjectURI, key_bytes

__all__ = ["FileStore"]

T = TypeVar("T")

# Threads that read ahead of a disk. Source: NVMe and page cache are saturated by far fewer; more only cost memory.
_READERS: Final = 16

# A call returns at most 2 GiB less a page, so that more is read by several. Source: Linux manual, read(2).
_ONE_CALL_BYTES: Final = 1 << 30

# Of a copy, in memory at a time.
_COPIED_BYTES: Final = 1 << 20


class FileStore(BaseStore):
    """A store of files, with an object store's meaning: an object appears whole or not at all.

    A write goes to a temporary file in the same directory, is flushed to the device and renamed, under a lock of the
    directory, which makes conditions sure among all processes that use this store. A key is the path below the root
    (below ``/`` for what ``ObjectURI.parse`` makes of an address); one that a file system cannot hold (an empty, ``.``
    or ``..`` segment, a NUL, a name above 255 bytes, a file and a directory of the same name) is refused with
    ``UnsupportedError``. Links are followed, wherever they lead; a write replaces and a delete removes the link itself.
    The file system should tell names apart by their bytes; one that folds case or Unicode forms joins such keys.

    Safe for use by several threads and processes at once, and after a fork.
    """

    def __init__(self, uri: ObjectURI, config: StoreConfig) -> None:
        super().__init__(uri.root, config)
        self._root = uri.bucket.rstrip("/")
        self.renew()
        renew_after_fork(self)

    def renew(self) -> None:
        """Give a forked child threads of its own."""
        self._lock = threading.Lock()
        self._pool: ThreadPool | None = None

    @property
    def lists_by_walking(self) -> bool:
        """True: a page from some key on means to read the directories anew."""
        return True

    def list(self, prefix: str = "", *, start_after: str = "") -> Iterator[ObjectInfo]:
        """Yield the files under a prefix; those written or removed meanwhile may or may not be among them."""
        for key, found in list_files(self._root, self.uri, prefix, start_after=start_after):
            yield described(key, found)

    def submit_list_page(self, prefix: str = "", *, start_after: str = "") -> Future[ListedPage]:
        """Begin to list one page on one of the store's threads; each page reads the directories anew."""
        key_bytes(prefix)
        limit = self._config.list_page_size

        def work() -> ListedPage:
            infos = islice(self.list(prefix, start_after=start_after), limit + 1)
            return page_of(list(infos), limit, start_after)

        return self._submit(work)

    def head(self, key: str) -> ObjectInfo:
        path = self._path(key)
        with explained("head", self.address(key)):
            found = Path(path).stat()
            if not stat.S_ISREG(found.st_mode):
                raise FileNotFoundError
            return described(key, found)

    def submit_read(self, read: Read) -> Future[ObjectData]:
        """Begin a read on one of the store's threads; one opened file serves the whole of it."""

        def work(descriptor: int, info: ObjectInfo) -> ObjectData:
            length = read.length_in(info.size_bytes)
            data: bytes | memoryview
            if read.into is None:
                data = _read_bytes(descriptor, read.start, length)
            else:
                data = first_bytes(read.into, length)
                _read_into(descriptor, read.start, data)
            return ObjectData(info=info, start=read.start, data=data)

        return self._submit(partial(self._opened, read, work))

    def _submit(self, work: Callable[[], T]) -> Future[T]:
        with self._lock:
            if self._pool is None:
                workers = min(self._config.concurrency, _READERS)
                self._pool = ThreadPool(workers, "torchbucket-file", initializer=become_store_thread)
            return submit_to(self._pool, work)

    def _fill(
        self, read: Read, targets: Sequence[Target], gap_bytes: int, filled: Callable[[int], None] | None
    ) -> Future[ObjectInfo]:
        def work(descriptor: int, info: ObjectInfo) -> ObjectInfo:
            check_within(self.address(read.key), info, targets)
            for position in sorted(range(len(targets)), key=lambda position: targets[position][0]):
                start, memory = targets[position]
                _read_into(descriptor, start, memory)
                if filled is not None:
                    filled(position)
            return info

        return self._submit(partial(self._opened, read, work))

    def _opened(self, read: Read, work: Callable[[int, ObjectInfo], T]) -> T:
        """Have ``work`` read an object by its descriptor and description, and see that it stayed as it was."""
        path, uri = self._path(read.key), self.address(read.key)
        with explained("read", uri):
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            try:
                found = os.fstat(descriptor)
                if not stat.S_ISREG(found.st_mode):
                    raise FileNotFoundError
                info = described(read.key, found)
                check_same(uri, info, size_bytes=read.size_bytes, version=read.version)
                result = work(descriptor, info)
                # A file that something rewrote in place, not by renaming, has another time or size now.
                check_same(uri, described(read.key, os.fstat(descriptor)), size_bytes=None, version=info.version)
            finally:
                os.close(descriptor)
        return result

    def _open_writer(self, key: str, size_hint: int | None, condition: Condition | None) -> FileWriter:
        append = partial(self._append, "write")
        return FileWriter(self.address(key), key, self._path(key), condition, self._prune, append)

    def _delete(self, key: str, condition: Condition | None) -> None:
        """Remove a file if it is there, and the directories that are empty then."""
        path, uri = self._path(key), self.address(key)
        try:
            with explained("delete", uri), locked(Path(path).parent, uri, needed=condition is not None):
                if condition is not None and os.path.lexists(path):
                    check_condition("delete", uri, path, key, condition)
                if Path(path).is_dir():  # through a link, too
                    raise IsADirectoryError
                Path(path).unlink()
        except NotFoundError:
            return
        self._prune(Path(path).parent)

    def copy(self, source_key: str, target_key: str) -> ObjectInfo:
        """Copy a file through a temporary, so that the target appears whole."""
        return self._join("copy", [ObjectInfo(key=source_key, size_bytes=0)], target_key)

    def compose(self, sources: Sequence[ObjectInfo], target_key: str) -> ObjectInfo:
        """Join files through a temporary, so that the target appears whole."""
        return self._join("compose", sources, target_key)

    def _join(self, operation: str, sources: Sequence[ObjectInfo], target_key: str) -> ObjectInfo:
        check_key(target_key)
        with self._open_writer(target_key, None, None) as writer:
            for source in sources:
                self._append(operation, writer.file, source)
        return writer.info

    def _append(
        self, operation: str, file: BinaryIO, source: ObjectInfo, start: int = 0, stop: int | None = None
    ) -> None:
        """Append a range of a file, or all of it, to one that is being written."""
        uri = self.address(source.key)
        with explained(operation, uri), Path(self._path(source.key)).open("rb") as reader:
            before = described(source.key, os.fstat(reader.fileno()))
            check_same(uri, before, size_bytes=None, version=source.version, operation=operation)
            reader.seek(start)
            left = before.size_bytes - start if stop is None else stop - start
            while left:
                data = reader.read(min(left, _COPIED_BYTES))
                if not data:
                    raise OSError(f"the file ended {left} bytes before the range to be copied")
                file.write(data)
                left -= len(data)
            # Something that rewrote the file in place, not by renaming, changed its time or size.
            after = described(source.key, os.fstat(reader.fileno()))
            check_same(uri, after, size_bytes=None, version=before.version, operation=operation)

    def list_uploads(self, prefix: str = "") -> Iterator[OpenUpload]:
        """Yield the temporary files of writes in progress and of writers that were killed.

        A long name is cut, since the temporary's own must fit into 255 bytes.
        """
        for key, found in list_files(self._root, self.uri, prefix, temporaries=True):
            directory, _, name = key.rpartition("/")
            target = f"{directory}/" * bool(directory) + target_of(name)[1:]
            if target.startswith(prefix):
                yield OpenUpload(key=target, upload_id=name, started_s=found.st_mtime)

    def abort_upload(self, upload: OpenUpload) -> None:
        """Remove a temporary file; its writer, if it lives, fails when it closes."""
        name = upload.upload_id
        if not is_being_written(name) or "/" in name:
            raise StoreError(f"{name!r} is no open upload of {self.uri}", operation="abort_upload", uri=self.uri)
        parent = Path(self._path(upload.key)).parent
        (parent / name).unlink(missing_ok=True)
        self._prune(parent)

    def close(self) -> None:
        """End the store's threads once their reads are done.

        Raises:
            StoreError: this is a store's own thread; they end in time, but that cannot be waited for.
        """
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=False)
            refuse_to_wait("close")
            pool.shutdown()

    def _path(self, key: str) -> str:
        """The file that a key names."""
        check_key(key)
        segments = key.split("/")
        reason = ""
        if any(segment in ("", ".", "..") for segment in segments):
            reason = "an empty, '.' or '..' segment"
        elif "\0" in key:
            reason = "a NUL"
        elif any(len(segment.encode()) > 255 for segment in segments):
            reason = "a segment above 255 bytes"
        elif any(map(is_being_written, segments)):
            reason = "a segment named like this store's temporary files"
        if reason:
            address = self.address(key)
            why = f"its key has {reason}, which a directory of files cannot hold; rename it"
            raise UnsupportedError(f"{address}: {why}", operation="path", uri=address)
        return f"{self._root}/{key}"

    def _prune(self, directory: Path) -> None:
        """Remove the directories that are empty now; none where the root is ``/``, whose directories are the user's."""
        root = Path(self._root)
        while self._root and root in directory.parents:
            try:
                directory.rmdir()
            except OSError:
                return
            directory = directory.parent


def _read_bytes(descriptor: int, start: int, length: int) -> bytes:
    if length < _ONE_CALL_BYTES:
        data = os.pread(descriptor, length, start)
        if len(data) == length:
            return data
    whole, memory = writable_bytes(length)
    _read_into(descriptor, start, memory)
    return whole


def _read_into(descriptor: int, start: int, target: memoryview) -> None:
    done = 0
    while done < len(target):
        count = os.preadv(descriptor, [target[done:]], start + done)
        if count == 0:
            raise OSError(f"the file ended after {done} of {len(target)} bytes; it was cut while it was read")
        done += count
