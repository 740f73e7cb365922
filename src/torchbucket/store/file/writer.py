"""The write of a file that appears whole or not at all, and the lock under which files appear and go."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Callable, Iterator
from io import BufferedWriter, FileIO
from pathlib import Path
from typing import BinaryIO, Final

from torchbucket.errors import UnsupportedError
from torchbucket.store.conditions import Condition, unmet
from torchbucket.store.file.errors import explained
from torchbucket.store.protocol import ObjectInfo
from torchbucket.store.temporary_names import temporary_key
from torchbucket.store.writer import BaseWriter

__all__ = ["FileWriter", "check_condition", "described", "locked"]

# The longest name of a file on Linux's and macOS's file systems.
_MOST_NAME_BYTES: Final = 255


class FileWriter(BaseWriter):
    """Writes to a temporary file beside the target, which takes its name when it is closed.

    Args:
        uri: the object's address, for messages.
        key: the object's key.
        path: the file's path; its directory is made where it is missing.
        condition: what must hold of the file that has the name then.
        prune: called with the directory of a temporary that was removed.
        append: called with a file, another object of the store and a range of it, which it appends to the file.
    """

    def __init__(
        self,
        uri: str,
        key: str,
        path: str,
        condition: Condition | None,
        prune: Callable[[Path], None],
        append: Callable[[BinaryIO, ObjectInfo, int, int], None],
    ) -> None:
        self._key, self._path, self._condition, self._prune, self._append = key, path, condition, prune, append
        self._temporary: str | None = None
        with explained("write", uri):
            if Path(path).is_dir():
                raise IsADirectoryError
            self._made_in = _directories_to_make(Path(path).parent)
            self.file, self._temporary = _temporary_beside(path)
        super().__init__(uri)

    def _write(self, view: memoryview) -> None:
        with explained("write", self._uri):
            self.file.write(view)

    def _write_range(self, source: ObjectInfo, start: int, stop: int) -> None:
        self._append(self.file, source, start, stop)

    def _publish(self) -> ObjectInfo:
        temporary = self._temporary
        assert temporary is not None
        with explained("write", self._uri):
            self.file.flush()
            os.fsync(self.file.fileno())
            found = os.fstat(self.file.fileno())
            self.file.close()
            with locked(Path(self._path).parent, self._uri, needed=self._condition is not None) as directory:
                if self._condition is None:
                    Path(temporary).replace(self._path)
                elif self._condition.version is None:
                    # A link, unlike a rename, fails where the name exists.
                    os.link(temporary, self._path)
                    Path(temporary).unlink()
                else:
                    check_condition("write", self._uri, self._path, self._key, self._condition)
                    Path(temporary).replace(self._path)
                self._temporary = None
                # A name is on the device only when its directory is, and so are the names of new directories.
                os.fsync(directory)
            for made_in in self._made_in:
                with _opened(made_in) as directory:
                    os.fsync(directory)
            return described(self._key, found)

    def _discard(self) -> None:
        with contextlib.suppress(OSError):
            self.file.close()  # which writes what is buffered still, and may find the device full again
        temporary, self._temporary = self._temporary, None
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
            self._prune(Path(temporary).parent)

    def _discard_unclosed(self) -> None:
        self._discard()


def described(key: str, found: os.stat_result) -> ObjectInfo:
    """Describe a file; its version is a digest of inode, size and time of change."""
    return ObjectInfo(
        key=key,
        size_bytes=found.st_size,
        version=f"{found.st_ino:x}-{found.st_size:x}-{found.st_mtime_ns:x}",
        last_modified_s=found.st_mtime,
    )


def check_condition(operation: str, uri: str, path: str, key: str, condition: Condition) -> None:
    """Raise ``PreconditionFailedError`` unless the file has the version; call it with the directory locked."""
    try:
        version = described(key, os.stat(path)).version  # noqa: PTH116  # a Path for one call costs as much again
    except (FileNotFoundError, NotADirectoryError):
        version = None
    if version != condition.version:
        raise unmet(operation, uri, condition)


@contextlib.contextmanager
def locked(directory: Path, uri: str, *, needed: bool) -> Iterator[int]:
    """Hold a directory's lock, so that no other store, in this process or another, changes which files it holds.

    Yields a descriptor of the directory.

    The lock is advisory, ``flock`` on the directory itself: it leaves nothing behind and goes with the process. Some
    network file systems have none; only a change on a condition (``needed``) is refused there.

    Raises:
        UnsupportedError: the lock is needed and the file system has none.
    """
    with _opened(directory) as descriptor:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except OSError as error:
            if needed:
                raise UnsupportedError(
                    f"{uri}: the file system cannot lock a directory ({error.strerror}), so a write or delete on a "
                    "condition could not be sure of it; do without if_version, or use another file system",
                    operation="lock",
                    uri=uri,
                ) from error
        try:
            yield descriptor
        finally:
            # Not left to the close: a child forked meanwhile holds a copy of the descriptor, and with it the lock.
            with contextlib.suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_UN)


@contextlib.contextmanager
def _opened(directory: Path) -> Iterator[int]:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _directories_to_make(directory: Path) -> list[Path]:
    """The directories in which others are to be made, so that ``directory`` is there."""
    made_in = []
    while not directory.exists() and directory != directory.parent:
        directory = directory.parent
        made_in.append(directory)
    return made_in


def _temporary_beside(path: str) -> tuple[BufferedWriter, str]:
    """Create a temporary file in the directory of ``path``, which is made where it is missing."""
    directory, name = os.path.split(path)
    while True:
        try:
            Path(directory).mkdir(parents=True, exist_ok=True)
        except FileExistsError:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), directory) from None
        temporary = f"{directory}/.{temporary_key(name, most_bytes=_MOST_NAME_BYTES - 1)}"
        try:
            # Not the tempfile module's: its files are the owner's alone, an object has the mode that the umask says.
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        except FileNotFoundError:
            continue  # A delete elsewhere took the directory, empty then, between the two calls.
        except FileExistsError:
            continue
        return BufferedWriter(FileIO(descriptor, "wb"), 1 << 20), temporary
