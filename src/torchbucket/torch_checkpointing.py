"""A storage for ``torch-checkpointing``, whose commit is one small object instead of the renaming of a directory."""

from __future__ import annotations

import errno
import io
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from torchbucket.config import StoreConfig
from torchbucket.errors import ConfigError, NotFoundError, PreconditionFailedError
from torchbucket.files.reader import ObjectReader
from torchbucket.store.protocol import Store
from torchbucket.store.shared import shared_store
from torchbucket.uri import ObjectURI

try:
    from torch_checkpointing.storage.base_storage import ReadArgs, Storage, StorageConfig
except ModuleNotFoundError as error:
    raise ImportError(
        "torchbucket.torch_checkpointing needs torch-checkpointing, which is not installed: "
        "pip install 'torchbucket[torch-checkpointing]'"
    ) from error

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["BucketStorage", "BucketStorageConfig"]

_STAGED: Final = ".torchbucket-staged"
_COMMITTED: Final = ".torchbucket-committed"
_TEMP_DIR_PREFIX: Final = "tmp_"  # Source: torch-checkpointing 0.1, DEFAULT_TEMP_DIR_PREFIX


@dataclass
class BucketStorageConfig(StorageConfig):
    """Has ``CheckpointManager`` keep its checkpoints in a bucket: ``CheckpointManager.Config(storage_config=…)``.

    Paths are addresses, ``Path("s3://bucket/run-1/step-100")``; that a ``Path`` drops one of the slashes is no matter.

    A checkpoint is written to where it is to be. What ``torch-checkpointing`` believes to be a directory of its own,
    ``tmp_step-100``, is an object beside the files that says that they are not complete, and its renaming is another
    one that says that they are. So nothing is copied or removed, and a checkpoint is there by one request.

    Args:
        config: how to reach the bucket; None means ``StoreConfig()``.
        temp_dir_prefix: that of the writer's settings, where it is another one.
    """

    config: StoreConfig | None = None
    temp_dir_prefix: str = _TEMP_DIR_PREFIX

    def create_storage(self) -> BucketStorage:
        """The storage, in whichever process."""
        return BucketStorage(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Place:
    """Where a path leads.

    Args:
        store: the bucket.
        key: of the object, or of the directory without a slash, where it is to be in the end.
        staged: the key of the checkpoint that it is a part of, where the path goes through a temporary directory.
    """

    store: Store
    key: str
    staged: str | None

    @property
    def is_staged(self) -> bool:
        """Whether the path is that of a temporary directory itself."""
        return self.staged == self.key


class BucketStorage(Storage):
    """See :class:`BucketStorageConfig`.

    Args:
        config: the settings.
    """

    def __init__(self, config: BucketStorageConfig) -> None:
        if not config.temp_dir_prefix:
            raise ConfigError("temp_dir_prefix: what the names of temporary directories begin with; got an empty text")
        self._config = config.config
        self._prefix = config.temp_dir_prefix
        self._begun: set[str] = set()

    def stream_read(self, path: Path, read_args: ReadArgs | None = None) -> io.RawIOBase:
        """A file of an object, of which each read fetches what it wants in parallel."""
        del read_args
        place = self._place(path)
        reader: Any = ObjectReader.lazy(place.store, place.key, uri=self.remap_path(path))
        return reader  # type: ignore[no-any-return]

    def stream_write(self, path: Path) -> io.IOBase:
        """A file for writing, whose object appears when it is closed; leaving it by an exception writes nothing."""
        place = self._place(path)
        self._begin(place)
        return place.store.open_writer(place.key)

    def write(self, path: Path, data: Buffer) -> None:
        """Write an object from where it lies in memory."""
        place = self._place(path)
        self._begin(place)
        place.store.write(place.key, memoryview(data))

    def delete(self, path: Path) -> None:
        """Delete a file.

        Raises:
            NotFoundError: there is none.
        """
        place = self._place(path)
        place.store.head(place.key)
        place.store.delete(place.key)

    def mkdir(self, path: Path, recursive: bool = True) -> None:
        """Begin a checkpoint, where the directory is a temporary one; others need no making.

        Raises:
            ConfigError: a directory that it is in has a temporary one's name, too.
        """
        del recursive
        place = self._place(path)
        if path.name.startswith(self._prefix) and not place.is_staged:
            raise ConfigError(
                f"{path}: a directory on the way to {path.name!r} begins with {self._prefix!r} as well, and would be "
                "taken for the temporary one: name it otherwise, or give another temp_dir_prefix to the storage and to "
                "the writer"
            )
        self._begin(place)

    def rmdir(self, path: Path) -> None:
        """Remove a directory and all in it: what makes it a checkpoint first, and its own marks last."""
        place = self._place(path)
        names = self._names(place)
        if not names:
            raise NotFoundError(f"remove {self.remap_path(path)}: there is no such directory")
        last = [name for name in names if name == _STAGED]
        first = [name for name in names if name == _COMMITTED]
        for name in [*first, *sorted({*names} - {_STAGED, _COMMITTED}), *last]:
            place.store.delete(f"{place.key}/{name}")
        self._begun.discard(place.key)

    def rename(
        self, src_path: Path, dst_path: Path, is_directory: bool = False, background_cleanup: bool = False
    ) -> None:
        """Commit a checkpoint, where its temporary directory becomes its own; copy and delete anything else.

        Raises:
            FileExistsError: something is there already.
            NotFoundError: there is nothing to rename.
        """
        del background_cleanup
        source, target = self._place(src_path), self._place(dst_path)
        if source.is_staged and target.staged is None and source.key == target.key:
            self._commit(source, dst_path)
        elif is_directory or self.isdir(src_path):
            self._move_directory(source, target, dst_path)
        else:
            if self.isdir(dst_path):
                raise _occupied(dst_path)
            source.store.copy(source.key, target.key)
            source.store.delete(source.key)

    def ls(self, path: Path) -> list[str]:
        """What is in a directory: its files, its checkpoints, and temporary directories of those that are not complete.

        Raises:
            NotFoundError: there is no such directory.
        """
        names = self._names(self._place(path))
        if not names:
            raise NotFoundError(f"list {self.remap_path(path)}: there is no such directory")
        found = {name for name in names if "/" not in name} - {_STAGED, _COMMITTED}
        for directory in {name.partition("/")[0] for name in names if "/" in name}:
            inner = {name.removeprefix(f"{directory}/") for name in names if name.startswith(f"{directory}/")}
            found.add(directory if _is_complete(inner) else self._prefix + directory)
        return sorted(found)

    def exists(self, path: Path) -> bool:
        """Whether there is a file, or a directory; a checkpoint's is there once it is complete."""
        return self._is_file(self._place(path)) or self.isdir(path)

    def getsize(self, path: Path) -> int:
        """The size of a file in bytes; ``NotFoundError`` where there is none."""
        place = self._place(path)
        return place.store.head(place.key).size_bytes

    def isdir(self, path: Path) -> bool:
        """Whether there is a directory; a checkpoint's is there once it is complete, its temporary one until then."""
        place = self._place(path)
        names = self._names(place)
        return bool(names) and _is_complete(names) != place.is_staged

    def remap_path(self, path: Path) -> str:
        """The address that a path stands for."""
        location = ObjectURI.parse(path)
        place = self._place(path)
        return str(ObjectURI(scheme=location.scheme, bucket=location.bucket, key=place.key))

    def _place(self, path: Path) -> _Place:
        location = ObjectURI.parse(path)
        parts = location.key.strip("/").split("/")
        staged = None
        for position, part in enumerate(parts):
            if staged is None and part.startswith(self._prefix) and len(part) > len(self._prefix):
                parts[position] = part.removeprefix(self._prefix)
                staged = "/".join(parts[: position + 1])
        return _Place(store=shared_store(location, self._config), key="/".join(parts), staged=staged)

    def _begin(self, place: _Place) -> None:
        """Leave word that a checkpoint is not complete, before anything of it is written."""
        if place.staged is None or place.staged in self._begun:
            return
        names = {info.key.removeprefix(f"{place.staged}/") for info in place.store.list(f"{place.staged}/")}
        if names and _is_complete(names):
            raise FileExistsError(
                errno.EEXIST,
                f"{place.store.uri}/{place.staged} is complete or another's; remove it, or save under another name",
            )
        place.store.write(f"{place.staged}/{_STAGED}", b"")
        self._begun.add(place.staged)

    def _commit(self, source: _Place, path: Path) -> None:
        if _STAGED not in self._names(source):
            raise NotFoundError(f"commit {self.remap_path(path)}: nothing of it was written")
        try:
            source.store.write(f"{source.key}/{_COMMITTED}", b"", if_absent=True)
        except PreconditionFailedError as error:
            raise _occupied(path) from error
        self._begun.discard(source.key)

    def _move_directory(self, source: _Place, target: _Place, path: Path) -> None:
        names = self._names(source)
        if not names:
            raise NotFoundError(f"rename to {self.remap_path(path)}: there is nothing to rename")
        if self._is_file(target) or self._names(target):
            raise _occupied(path)
        # What makes it a checkpoint comes last.
        for name in sorted(names, key=lambda name: (name == _COMMITTED, name)):
            target.store.copy(f"{source.key}/{name}", f"{target.key}/{name}")
        for name in sorted(names, key=lambda name: (name != _COMMITTED, name)):
            source.store.delete(f"{source.key}/{name}")

    def _is_file(self, place: _Place) -> bool:
        if not place.key:
            return False
        try:
            place.store.head(place.key)
        except NotFoundError:
            return False
        return True

    def _names(self, place: _Place) -> set[str]:
        prefix = f"{place.key}/" if place.key else ""
        return {info.key.removeprefix(prefix) for info in place.store.list(prefix)}


def _is_complete(names: Iterable[str]) -> bool:
    """Whether a directory with these names is one to others: a checkpoint that is complete, or none of ours."""
    found = set(names)
    return _COMMITTED in found or _STAGED not in found


def _occupied(path: Path) -> FileExistsError:
    return FileExistsError(errno.ENOTEMPTY, f"{path} is there already; delete it first if it is to be replaced")
