"""Objects as files below one directory."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from io import BufferedWriter, FileIO
from pathlib import Path
from typing import Final

from torchbucket.config import StoreConfig
from torchbucket.errors import (
    NotFoundError,
    StoreError,
    UnsupportedError,
)
from torchbucket.store.base import BaseStore, BaseWriter, check_key, check_range, check_same, fit
from torchbucket.store.file_errors import explained
from torchbucket.store.file_listing import TEMPORARY_PREFIX, list_files
from torchbucket.store.forking import renew_after_fork
from torchbucket.store.protocol import ObjectData, ObjectInfo, OpenUpload
from torchbucket.uri import ObjectURI

__all__ = ["FileStore"]

# Threads that read ahead of a disk. Source: NVMe and page cache are saturated by far fewer; more only cost memory.
_READERS: Final = 16


class FileStore(BaseStore):
    """A store of files, with an object store's meaning: an object appears whole or not at all.

    A write goes to a temporary file in the same directory, is flushed to the device and renamed. A key is a relative
    path; one that a file system cannot hold (an empty, ``.`` or ``..`` segment, a NUL, a name above 255 bytes, a file
    and a directory of the same name) is refused with ``UnsupportedError``, and so is a link that leads out of the root
    or to a directory, when it is read and when it is listed. The file system should tell names apart by their bytes;
    one that folds case or Unicode forms joins such keys.

    Safe for use by several threads and processes at once, and after a fork.
    """

    def __init__(self, uri: ObjectURI, config: StoreConfig) -> None:
        super().__init__(uri.root, config)
        self._root = uri.bucket
        self._real_root = os.path.realpath(uri.bucket)
        self.renew()
        renew_after_fork(self)

    def renew(self) -> None:
        """Give a forked child threads of its own."""
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None

    def list(self, prefix: str = "", *, start_after: str = "") -> Iterator[ObjectInfo]:
        """Yield the files under a prefix; those written or removed meanwhile may or may not be among them."""
        for key, found in list_files(self._real_root, self.uri, prefix, start_after=start_after):
            yield _described(key, found)

    def head(self, key: str) -> ObjectInfo:
        """Describe one file."""
        path = self._path(key)
        with explained("head", self.address(key)):
            found = Path(path).stat()
            if not stat.S_ISREG(found.st_mode):
                raise FileNotFoundError
            return _described(key, found)

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
        """Begin a read on one of the store's threads; one opened file serves the whole of it."""
        check_key(key)
        target = check_range(start, stop, size_bytes, into)
        with self._lock:
            if self._pool is None:
                workers = min(self._config.concurrency, _READERS)
                self._pool = ThreadPoolExecutor(workers, thread_name_prefix="torchbucket-file")
            return self._pool.submit(self._read, key, start, stop, target, size_bytes, version)

    def _read(
        self,
        key: str,
        start: int,
        stop: int | None,
        target: memoryview | None,
        size_bytes: int | None,
        version: str | None,
    ) -> ObjectData:
        path = self._path(key)
        with explained("read", self.address(key)):
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            try:
                found = os.fstat(descriptor)
                if not stat.S_ISREG(found.st_mode):
                    raise FileNotFoundError
                info = _described(key, found)
                check_same(self.address(key), info, size_bytes=size_bytes, version=version)
                length = max(0, min(info.size_bytes, info.size_bytes if stop is None else stop) - start)
                data: bytes | memoryview
                if target is None:
                    data = _read_bytes(descriptor, start, length)
                else:
                    data = fit(target, length)
                    _read_into(descriptor, start, data)
                # A file that something rewrote in place, not by renaming, has another time or size now.
                check_same(
                    self.address(key), _described(key, os.fstat(descriptor)), size_bytes=None, version=info.version
                )
            finally:
                os.close(descriptor)
        return ObjectData(info=info, start=start, data=data)

    def open_writer(self, key: str, *, if_absent: bool = False) -> _FileWriter:
        """Begin a write to a temporary file beside the target."""
        return _FileWriter(self, key, if_absent)

    def delete(self, key: str) -> None:
        """Remove a file if it is there, and the directories that are empty then."""
        path = self._path(key, follow=False)
        try:
            with explained("delete", self.address(key)):
                Path(path).unlink()
        except NotFoundError:
            return
        self._prune(Path(path).parent)

    def copy(self, source_key: str, target_key: str) -> ObjectInfo:
        """Copy a file through a temporary, so that the target appears whole."""
        source = self._path(source_key)
        with explained("copy", self.address(source_key)), Path(source).open("rb") as reader:
            writer = _FileWriter(self, target_key, False)
            with writer:
                shutil.copyfileobj(reader, writer.file, 1 << 20)
                return writer.close()

    def list_uploads(self, prefix: str = "") -> Iterator[OpenUpload]:
        """Yield the temporary files of writes in progress and of writers that were killed.

        A name above 229 bytes is cut, since the temporary's own must fit into 255.
        """
        # A temporary lies in its target's directory, whatever its own name, so that part of the prefix bounds the walk.
        within = prefix[: prefix.rfind("/") + 1]
        for key, found in list_files(self._real_root, self.uri, within, temporaries=True):
            directory, _, name = key.rpartition("/")
            target = f"{directory}/" * bool(directory) + name[len(TEMPORARY_PREFIX) + 9 :]
            if target.startswith(prefix):
                yield OpenUpload(key=target, upload_id=name, started_s=found.st_mtime)

    def abort_upload(self, upload: OpenUpload) -> None:
        """Remove a temporary file; its writer, if it lives, fails when it closes."""
        name = upload.upload_id
        if not name.startswith(TEMPORARY_PREFIX) or "/" in name:
            raise StoreError(f"{name!r} is no open upload of {self.uri}", operation="abort_upload", uri=self.uri)
        parent = Path(self._path(upload.key, follow=False)).parent
        (parent / name).unlink(missing_ok=True)
        self._prune(parent)

    def close(self) -> None:
        """End the store's threads once their reads are done."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown()

    def _path(self, key: str, *, follow: bool = True) -> str:
        """The file that a key names, inside the root whatever links lie on the way."""
        check_key(key)
        segments = key.split("/")
        reason = ""
        if any(segment in ("", ".", "..") for segment in segments):
            reason = "an empty, '.' or '..' segment"
        elif "\0" in key:
            reason = "a NUL"
        elif any(len(segment.encode()) > 255 for segment in segments):
            reason = "a segment above 255 bytes"
        elif any(segment.startswith(TEMPORARY_PREFIX) for segment in segments):
            reason = f"a segment that begins like this store's temporary files, {TEMPORARY_PREFIX!r}"
        if reason:
            raise self._unsupported(key, f"its key has {reason}, which a directory of files cannot hold; rename it")
        plain = os.path.join(self._real_root, *segments)  # noqa: PTH118  # pathlib would cost more than the read
        if follow:
            real = os.path.realpath(plain)
        else:
            # A write replaces, and a delete removes, what has the name itself, be it a link.
            real = os.path.join(os.path.realpath(os.path.dirname(plain)), segments[-1])  # noqa: PTH118, PTH120
        if os.path.commonpath((self._real_root, real)) != self._real_root:
            raise self._unsupported(key, "a link on its path leads out of the store's root; open its target instead")
        return real

    def _unsupported(self, key: str, why: str) -> UnsupportedError:
        return UnsupportedError(f"{self.address(key)}: {why}", operation="path", uri=self.address(key))

    def _prune(self, directory: Path) -> None:
        root = Path(self._real_root)
        while directory != root and root in directory.parents:
            try:
                directory.rmdir()
            except OSError:
                return
            directory = directory.parent


class _FileWriter(BaseWriter):
    def __init__(self, store: FileStore, key: str, if_absent: bool) -> None:
        super().__init__(store.address(key))
        self._store, self._key, self._if_absent = store, key, if_absent
        self._path = store._path(key, follow=False)
        self._temporary: str | None = None
        self._pid = os.getpid()
        with explained("write", store.address(key)):
            if Path(self._path).is_dir():
                raise IsADirectoryError
            self.file, self._temporary = _temporary_beside(self._path)

    def _write(self, view: memoryview) -> None:
        with explained("write", self._store.address(self._key)):
            self.file.write(view)

    def _publish(self) -> ObjectInfo:
        assert self._temporary is not None
        with explained("write", self._store.address(self._key)):
            self.file.flush()
            os.fsync(self.file.fileno())
            found = os.fstat(self.file.fileno())
            self.file.close()
            if self._if_absent:
                # A link, unlike a rename, fails where the name exists.
                os.link(self._temporary, self._path)
                Path(self._temporary).unlink()
            else:
                Path(self._temporary).replace(self._path)
            self._temporary = None
            return _described(self._key, found)

    def _discard(self) -> None:
        self.file.close()
        temporary, self._temporary = self._temporary, None
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
            self._store._prune(Path(temporary).parent)

    def __del__(self) -> None:
        # A forked child holds a copy of its parent's writer, whose file is not the child's to remove.
        if getattr(self, "_temporary", None) is not None and self._pid == os.getpid():
            self.abort()


def _temporary_beside(path: str) -> tuple[BufferedWriter, str]:
    """Create a temporary file in the directory of ``path``, which is made where it is missing."""
    directory, name = os.path.split(path)
    while True:
        try:
            Path(directory).mkdir(parents=True, exist_ok=True)
        except FileExistsError:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), directory) from None
        temporary = f"{directory}/{TEMPORARY_PREFIX}{secrets.token_hex(4)}-{_cut(name, 229)}"
        try:
            # Not the tempfile module's: its files are the owner's alone, an object has the mode that the umask says.
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        except FileNotFoundError:
            continue  # A delete elsewhere took the directory, empty then, between the two calls.
        except FileExistsError:
            continue
        return BufferedWriter(FileIO(descriptor, "wb"), 1 << 20), temporary


def _cut(name: str, most_bytes: int) -> str:
    return name.encode()[:most_bytes].decode(errors="ignore")


def _described(key: str, found: os.stat_result) -> ObjectInfo:
    return ObjectInfo(
        key=key,
        size_bytes=found.st_size,
        version=f"{found.st_ino:x}-{found.st_size:x}-{found.st_mtime_ns:x}",
        last_modified_s=found.st_mtime,
    )


def _read_bytes(descriptor: int, start: int, length: int) -> bytes:
    # One call returns at most 2 GiB less a page. Source: Linux manual, read(2).
    first = os.pread(descriptor, length, start)
    if len(first) == length:
        return first
    whole = memoryview(bytearray(length))
    whole[: len(first)] = first
    _read_into(descriptor, start + len(first), whole[len(first) :])
    return bytes(whole)


def _read_into(descriptor: int, start: int, target: memoryview) -> None:
    done = 0
    while done < len(target):
        count = os.preadv(descriptor, [target[done:]], start + done)
        if count == 0:
            raise OSError(f"the file ended after {done} of {len(target)} bytes; it was cut while it was read")
        done += count
