"""Objects held in a directory, so that they outlast the testbed and need not fit into memory.

    DIR/.buckettestbed               says that the directory is a testbed's, and in which format; locked while it serves
    DIR/.incoming/                   bodies that are arriving and parts of open uploads
    DIR/BUCKET/.bucket               makes the folder a bucket; where the bucket's creation asked it to be
    DIR/BUCKET/aa/aabbcc….object     one object: its bytes, then a record about it (see `_record_bytes`)

A file is named by the SHA-256 of its key, so no key can leave DIR, be too long for a file name or collide with another
on a file system that folds case. The key is in the record. Bytes and record are one file, which a rename publishes: a
reader sees the old object or the new one, never a mixture. Whatever else lies in the directory, links included, is
neither served nor removed.
"""

import asyncio
import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO

from buckettestbed.model.contents import Content, ContentGoneError, Received, pieces
from buckettestbed.model.digests import combine_crcs
from buckettestbed.model.hashing import ArrivingBytes
from buckettestbed.model.objects import Attributes, StoredObject

__all__ = ["DirectoryError", "DirectoryInUseError", "DirectoryStorage", "FileContent"]

_OWNER = ".buckettestbed"
_OWNED = {"format": "buckettestbed directory", "version": 4}
_BUCKET = ".bucket"
_INCOMING = ".incoming"

_MAGIC = b"BBTESTB2"
"""Ends every object's file."""

_TAIL_BYTES = len(_MAGIC) + 4
_SHARD = re.compile(r"[0-9a-f]{2}\Z")
_OBJECT = re.compile(r"[0-9a-f]{64}\.object\Z")
_COPY_BYTES = 1 << 20


class DirectoryError(Exception):
    """The directory cannot be used, is none of a testbed's, or holds what is not an object."""


class DirectoryInUseError(DirectoryError):
    """Another testbed serves the directory."""


class FileContent:
    """Bytes at the beginning of a file. The file is open only while it is read."""

    __slots__ = ("_identity", "crc32c", "path", "size_bytes")

    piece_bytes = _COPY_BYTES

    def __init__(self, path: Path, size_bytes: int, *, crc32c: bytes) -> None:
        self.path = path
        self.size_bytes = size_bytes
        self.crc32c = crc32c
        self._identity = _identity(path.stat())

    def open(self) -> "FileReader":
        """Opens the file; raises ContentGoneError where it was removed or replaced meanwhile."""
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError as error:
            raise ContentGoneError(f"cannot read {self.path}: {error.strerror}") from error
        if _identity(os.fstat(descriptor)) != self._identity:
            os.close(descriptor)
            raise ContentGoneError(f"{self.path} was replaced since this object was written")
        return FileReader(descriptor, self.path)

    def append(self, record: bytes) -> None:
        """Writes what follows the bytes in the file."""
        with self.path.open("ab") as file:
            file.write(record)
        self._identity = _identity(self.path.stat())

    def move(self, path: Path) -> None:
        """Renames the file, replacing another at once."""
        self.path.replace(path)
        self.path = path

    def release(self) -> None:
        """Removes the file."""
        self.path.unlink(missing_ok=True)


class FileReader:
    """An open file of an object; it outlasts a rename over it."""

    __slots__ = ("_descriptor", "_path")

    def __init__(self, descriptor: int, path: Path) -> None:
        self._descriptor = descriptor
        self._path = path

    def read(self, start: int, stop: int) -> bytes:
        """Reads; the page cache usually has it. Raises ContentGoneError where the file is shorter than it was."""
        piece = os.pread(self._descriptor, stop - start, start)
        if not piece:
            raise ContentGoneError(f"{self._path} ends at byte {start}, expected {stop}")
        return piece

    def close(self) -> None:
        """Closes the file."""
        os.close(self._descriptor)


def _identity(status: os.stat_result) -> tuple[int, int]:
    """Returns what tells a file from another of its name; the inode alone may be used again."""
    return status.st_ino, status.st_mtime_ns


class FileIncoming:
    """Writes a body to a file and hashes it meanwhile."""

    def __init__(self, folder: Path, algorithms: Collection[str]) -> None:
        descriptor, path = tempfile.mkstemp(dir=folder)
        self._path = Path(path)
        self._file: IO[bytes] = os.fdopen(descriptor, "wb")
        self._arriving = ArrivingBytes(algorithms, keep=False)
        self._size_bytes = 0

    def write(self, chunk: bytes) -> None:
        """Takes the next bytes."""
        self._file.write(chunk)
        self._arriving.write(chunk)
        self._size_bytes += len(chunk)

    async def finish(self) -> Received:
        """Returns the whole."""
        self._file.close()
        _, digests = await self._arriving.finish()
        content = FileContent(self._path, self._size_bytes, crc32c=digests["crc32c"])
        return Received(content=content, digests=digests)

    def discard(self) -> None:
        """Removes the file."""
        self._file.close()
        self._path.unlink(missing_ok=True)


class DirectoryStorage:
    """Keeps objects in a directory that is this testbed's alone until `close`, or until the process ends.

    Args:
        directory: made where it does not exist; an empty one, or one that a testbed made.

    Raises:
        DirectoryInUseError: another testbed serves it.
        DirectoryError: it holds something and is none of a testbed's, is of another format, or cannot be made, written
            to or read.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory.absolute()
        self._incoming = self._directory / _INCOMING
        self._lock = -1
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(self._directory, os.O_RDONLY | os.O_CLOEXEC)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._own()
            with contextlib.suppress(FileNotFoundError):
                shutil.rmtree(self._incoming)  # Of a testbed that was killed.
            self._incoming.mkdir()
        except BlockingIOError:
            self._unlock()
            raise DirectoryInUseError(f"another testbed serves {directory}; end it, or give another one") from None
        except OSError as error:
            self._unlock()
            raise DirectoryError(f"cannot use {directory}: {error.strerror or error}") from error
        except DirectoryError:
            self._unlock()
            raise

    def _own(self) -> None:
        """Makes an empty directory this testbed's; raises DirectoryError for one that is someone else's."""
        owner = self._directory / _OWNER
        names = sorted(path.name for path in self._directory.iterdir())
        if not names:
            owner.write_text(json.dumps(_OWNED))
            return
        advice = "nothing in it was touched; give an empty directory, or one that does not exist"
        try:
            found = json.loads(owner.read_bytes())
        except FileNotFoundError:
            raise DirectoryError(
                f"it holds {names[0]!r} and no {_OWNER}, so it is none of a testbed's; {advice}"
            ) from None
        except ValueError:
            found = None
        if found != _OWNED:
            raise DirectoryError(
                f"its {_OWNER} is {json.dumps(found)}; this testbed reads {json.dumps(_OWNED)}; {advice}"
            )

    def _unlock(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def load(self) -> Iterable[tuple[str, float, str, Iterable[StoredObject]]]:
        """Yields the buckets that the directory holds."""
        for folder in sorted(_real_folders(self._directory)):
            bucket = folder / _BUCKET
            if bucket.is_file() and not bucket.is_symlink():
                yield folder.name, folder.stat().st_ctime, bucket.read_text(), self._objects(folder)

    def _objects(self, folder: Path) -> Iterator[StoredObject]:
        for shard in _shards(folder):
            with os.scandir(shard) as entries:
                for entry in entries:
                    if _OBJECT.match(entry.name) and entry.is_file(follow_symlinks=False):
                        yield _read_object(Path(entry.path))

    def create_bucket(self, name: str, location: str) -> None:
        """Makes the bucket's folder; raises OSError where something else has its name."""
        folder = self._directory / name
        try:
            folder.mkdir()
        except FileExistsError:
            if folder.is_symlink() or any(folder.iterdir()):
                raise
        (folder / _BUCKET).write_text(location)

    def delete_bucket(self, name: str) -> None:
        """Removes what the bucket's folder has of the testbed's, and the folder if nothing else is in it."""
        folder = self._directory / name
        (folder / _BUCKET).unlink()
        with contextlib.suppress(OSError):  # Something else is in one of them.
            for shard in _shards(folder):
                shard.rmdir()
            folder.rmdir()

    def receive(self, algorithms: Collection[str]) -> FileIncoming:
        """Starts to take a body in."""
        return FileIncoming(self._incoming, algorithms)

    async def join(self, contents: Sequence[Content]) -> Content:
        """Returns a copy of the contents, one after another, in one file; made in a thread."""
        return await asyncio.to_thread(self._join, contents)

    def _join(self, contents: Sequence[Content]) -> FileContent:
        descriptor, path = tempfile.mkstemp(dir=self._incoming)
        size_bytes = 0
        try:
            with os.fdopen(descriptor, "wb") as file:
                for content in contents:
                    for piece in pieces(content, 0, content.size_bytes, _COPY_BYTES):
                        file.write(piece)
                    size_bytes += content.size_bytes
        except BaseException:
            Path(path).unlink(missing_ok=True)
            raise
        crc32c = combine_crcs("crc32c", ((content.crc32c, content.size_bytes) for content in contents))
        return FileContent(Path(path), size_bytes, crc32c=crc32c)

    def publish(self, bucket: str, found: StoredObject) -> None:
        """Adds the record to the body's file and renames it to its place."""
        content = found.content
        assert isinstance(content, FileContent), "a directory storage publishes only what it received"
        content.append(_record_bytes(found))
        final = self._path(bucket, found.key)
        try:
            final.parent.mkdir()
        except FileExistsError:
            if final.parent.is_symlink():
                raise
        content.move(final)

    def remove(self, bucket: str, key: str) -> None:
        """Removes the object's file."""
        self._path(bucket, key).unlink(missing_ok=True)

    def close(self) -> None:
        """Removes unfinished bodies and gives up the lock."""
        shutil.rmtree(self._incoming, ignore_errors=True)
        self._unlock()

    def _path(self, bucket: str, key: str) -> Path:
        digest = hashlib.sha256(key.encode()).hexdigest()
        return self._directory / bucket / digest[:2] / f"{digest}.object"


def _real_folders(folder: Path) -> list[Path]:
    """Returns the folders in a folder that are no links."""
    with os.scandir(folder) as entries:
        return [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]


def _shards(folder: Path) -> list[Path]:
    """Returns the folders of a bucket's folder that objects lie in."""
    return [shard for shard in _real_folders(folder) if _SHARD.match(shard.name)]


def _record_bytes(found: StoredObject) -> bytes:
    """Returns what follows an object's bytes in its file: JSON, its length in four bytes (big-endian), the magic."""
    record = {
        "key": found.key,
        "size_bytes": found.size_bytes,
        "etag": found.etag,
        "encryption": found.encryption,
        "crc32c": found.content.crc32c.hex(),
        "created_s": found.created_s,
        "modified_s": found.modified_s,
        "generation": found.generation,
        "metageneration": found.metageneration,
        "part_sizes_bytes": found.part_sizes_bytes,
        "headers": dict(found.attributes.headers),
        "metadata": dict(found.attributes.metadata),
        "checksums": dict(found.attributes.checksums),
        "checksum_type": found.attributes.checksum_type,
        "storage_class": found.attributes.storage_class,
    }
    encoded = json.dumps(record, separators=(",", ":")).encode()
    return encoded + len(encoded).to_bytes(4, "big") + _MAGIC


def _read_object(path: Path) -> StoredObject:
    """Returns the object in a file; raises DirectoryError where it holds none."""
    with path.open("rb") as file:
        size_bytes = file.seek(0, os.SEEK_END)
        file.seek(max(0, size_bytes - 4096))
        tail = file.read()
        length = int.from_bytes(tail[-_TAIL_BYTES : -len(_MAGIC)], "big")
        if not tail.endswith(_MAGIC) or length > size_bytes - _TAIL_BYTES:
            raise DirectoryError(f"{path} is not an object: it does not end in a record; remove it")
        if length + _TAIL_BYTES > len(tail):
            file.seek(size_bytes - length - _TAIL_BYTES)
            tail = file.read()
    record = json.loads(tail[-length - _TAIL_BYTES : -_TAIL_BYTES])
    return StoredObject(
        key=record["key"],
        content=FileContent(path, record["size_bytes"], crc32c=bytes.fromhex(record["crc32c"])),
        etag=record["etag"],
        encryption=record["encryption"],
        created_s=record["created_s"],
        modified_s=record["modified_s"],
        generation=record["generation"],
        metageneration=record["metageneration"],
        attributes=Attributes(
            headers=record["headers"],
            metadata=record["metadata"],
            checksums=record["checksums"],
            checksum_type=record["checksum_type"],
            storage_class=record["storage_class"],
        ),
        part_sizes_bytes=tuple(record["part_sizes_bytes"]),
    )
