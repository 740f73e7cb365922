"""Objects held in a directory, so that they outlast the testbed and need not fit into memory.

    DIR/.buckettestbed               says that the directory is a testbed's, and in which format; locked while it serves
    DIR/.incoming/                   bodies that are arriving and parts of open uploads
    DIR/BUCKET/.bucket               makes the folder a bucket; where the bucket's creation asked it to be
    DIR/BUCKET/aa/aabbcc….object     one object: its bytes, then a record about it (see `record_bytes`)

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

from buckettestbed.model.contents import Content, pieces
from buckettestbed.model.digests import combine_crcs
from buckettestbed.model.errors import DirectoryError, DirectoryInUseError, ForeignDirectoryError
from buckettestbed.model.files import COPY_BYTES, FileContent, FileIncoming
from buckettestbed.model.objects import StoredObject
from buckettestbed.model.records import read_object, record_bytes

__all__ = ["DirectoryStorage"]

_OWNER = ".buckettestbed"
_OWNED = {"format": "buckettestbed directory", "version": 5}
_BUCKET = ".bucket"
_INCOMING = ".incoming"

_SHARD = re.compile(r"[0-9a-f]{2}\Z")
_OBJECT = re.compile(r"[0-9a-f]{64}\.object\Z")


class DirectoryStorage:
    """Keeps objects in a directory that is this testbed's alone until `close`, or until the process ends.

    Args:
        directory: made where it does not exist; an empty one, or one that a testbed made.

    Raises:
        DirectoryInUseError: another testbed serves it.
        ForeignDirectoryError: it holds something and is none of a testbed's, or is of another format.
        DirectoryError: it cannot be made, written to or read.
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
        """Makes an empty directory this testbed's; raises ForeignDirectoryError for one that is someone else's."""
        owner = self._directory / _OWNER
        names = sorted(path.name for path in self._directory.iterdir())
        if not names:
            _write_or_none(owner, json.dumps(_OWNED))
            return
        advice = "nothing in it was touched; give an empty directory, or one that does not exist"
        try:
            found = json.loads(owner.read_bytes())
        except FileNotFoundError:
            raise ForeignDirectoryError(
                f"it holds {names[0]!r} and no {_OWNER}, so it is none of a testbed's; {advice}"
            ) from None
        except ValueError:
            found = None
        if found != _OWNED:
            raise ForeignDirectoryError(
                f"its {_OWNER} is {json.dumps(found)}; this testbed reads {json.dumps(_OWNED)}; {advice}"
            )

    def _unlock(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    @property
    def place(self) -> str:
        """The directory."""
        return str(self._directory)

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
                        yield read_object(Path(entry.path))

    def create_bucket(self, name: str, location: str) -> None:
        """Makes the bucket's folder; raises OSError where something else has its name."""
        folder = self._directory / name
        try:
            folder.mkdir()
        except FileExistsError:
            if folder.is_symlink() or any(folder.iterdir()):
                raise
        _write_or_none(folder / _BUCKET, location)

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
                    for piece in pieces(content, 0, content.size_bytes, COPY_BYTES):
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
        content.append(record_bytes(found))
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


def _write_or_none(path: Path, text: str) -> None:
    """Writes a file, and leaves none where that fails: an empty mark would be that of another format."""
    try:
        path.write_text(text)
    except OSError:
        path.unlink(missing_ok=True)
        raise


def _real_folders(folder: Path) -> list[Path]:
    """Returns the folders in a folder that are no links."""
    with os.scandir(folder) as entries:
        return [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]


def _shards(folder: Path) -> list[Path]:
    """Returns the folders of a bucket's folder that objects lie in."""
    return [shard for shard in _real_folders(folder) if _SHARD.match(shard.name)]
