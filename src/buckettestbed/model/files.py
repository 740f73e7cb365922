"""Bytes of objects and parts in files: how they arrive, and how they are read."""

import contextlib
import os
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import IO

from buckettestbed.model.contents import ContentGoneError, Received
from buckettestbed.model.hashing import ArrivingBytes

__all__ = ["COPY_BYTES", "FileContent", "FileIncoming"]

COPY_BYTES = 1 << 20
"""How much of a file is read at once."""


class FileContent:
    """Bytes at the beginning of a file. The file is open only while it is read."""

    __slots__ = ("_identity", "crc32c", "path", "size_bytes")

    piece_bytes = COPY_BYTES

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
        with contextlib.suppress(OSError):  # It writes what it still holds, which may be what found no room.
            self._file.close()
        self._path.unlink(missing_ok=True)
