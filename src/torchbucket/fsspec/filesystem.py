"""Buckets as an fsspec file system."""

# ruff: noqa: ARG002  # fsspec passes what other file systems use

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from typing import Any, ClassVar, Self

from fsspec import AbstractFileSystem
from fsspec.utils import stringify_path

from torchbucket.config import StoreConfig, check_config
from torchbucket.errors import ConfigError, NotFoundError, UnsupportedError
from torchbucket.fsspec.directories import Entry, children, descendants, directory_entry, file_entry, holds_any
from torchbucket.fsspec.open_files import BucketReader, BucketTextWriter, BucketWriter, exists_already
from torchbucket.fsspec.options import config_of
from torchbucket.fsspec.transfers import Transfers
from torchbucket.public import public_in
from torchbucket.store.protocol import ObjectInfo, Store
from torchbucket.store.shared import shared_store
from torchbucket.uri import ObjectURI

__all__ = ["BucketFileSystem", "GcsBucketFileSystem", "S3BucketFileSystem"]


@public_in("torchbucket.fsspec")
class BucketFileSystem(Transfers, AbstractFileSystem):  # type: ignore[misc]  # fsspec has no types
    """The buckets of one provider as files and directories.

        fs = BucketFileSystem(protocol="s3", config=StoreConfig(region="eu-west-1"))
        fs.ls("bucket/run-1")

    A path is ``bucket/key``, with or without the scheme. A directory is nothing but the beginning of keys: it is there
    as long as an object is below it, and need not be made. No listing is kept, so that what others write is seen.
    What is written appears whole when its file is closed, or never. An error is never an empty listing, and ``exists``
    is False for what is not there alone: refusals and failures of the network raise.

    Safe for use by several threads and after a fork; pickled, it is class and settings, without credentials.

    Args:
        protocol: ``s3``, ``gs``, or ``memory`` for torchbucket's stores in memory.
        config: how to reach the buckets; None means what ``register`` was given, else ``StoreConfig()``.
        storage_options: those of s3fs and gcsfs that ``docs/fsspec.md`` lists; they change the settings.

    Raises:
        ConfigError: an option that means nothing here, or credentials, which are no option.
    """

    protocol: ClassVar[Any] = ("s3", "s3a", "gs", "gcs", "memory")
    registered_config: ClassVar[StoreConfig | None] = None
    """The settings of those that are opened without any."""

    def __new__(cls, *_args: Any, protocol: str | None = None, **_options: Any) -> Self:
        if cls is not BucketFileSystem:
            return super().__new__(cls)  # type: ignore[no-any-return]
        for implementation in (S3BucketFileSystem, GcsBucketFileSystem, _MemoryBucketFileSystem):
            if protocol in implementation.protocol:
                return super().__new__(implementation)  # type: ignore[no-any-return]
        raise ConfigError(f"BucketFileSystem(protocol=…) is 's3', 'gs' or 'memory'; got {protocol!r}")

    def __init__(
        self, *, protocol: str | None = None, config: StoreConfig | None = None, **storage_options: Any
    ) -> None:
        if self._cached:
            return
        if protocol is not None and protocol not in self.protocol:
            raise ConfigError(f"{type(self).__name__} is for {self.protocol[0]}://; got protocol={protocol!r}")
        check_config(config)
        super().__init__()
        self._config = config_of(
            self.protocol[0], config or type(self).registered_config or StoreConfig(), storage_options
        )
        self._stores: dict[str, Store] = {}

    @property
    def config(self) -> StoreConfig:
        """The settings with which buckets are reached."""
        return self._config

    @property
    def fsid(self) -> str:
        """What names the provider, or the service that stands in for it."""
        return f"{self.protocol[0]}-{self._config.endpoint or 'default'}"

    def __reduce__(self) -> Any:
        # Another process need not have called `register`, nor have the same settings there.
        return _opened, (type(self), self._config)

    def to_dict(self, *, include_password: bool = True) -> dict[str, Any]:
        """The file system as JSON's values, from which ``from_dict`` opens it again.

        Raises:
            UnsupportedError: it was opened with ``config``, which is no JSON; pickle it.
        """
        if "config" in self.storage_options:
            raise UnsupportedError("a file system opened with config= has no JSON; pickle it, or open it with options")
        options = {name: value for name, value in self.storage_options.items() if name != "protocol"}
        cls = type(self)
        return {"cls": f"{cls.__module__}:{cls.__name__}", "protocol": self.protocol[0], "args": (), **options}

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(each) for each in path]
        text = stringify_path(path)
        if not isinstance(text, str):
            raise ConfigError(f"a path is a text or an os.PathLike; got {type(path).__name__}")
        scheme, colon, rest = text.partition(":")
        # A `pathlib.Path` has lost one of the slashes, and `::` is how fsspec chains protocols.
        if colon and scheme in cls.protocol and rest.startswith(("/", ":")):
            text = rest.removeprefix(":")
        elif "://" in text and scheme.isalnum():
            raise ConfigError(f"{cls.__name__} is for {cls.protocol[0]}://; got the path {text!r}")
        return text.lstrip("/").rstrip("/")

    def unstrip_protocol(self, name: str) -> str:
        """The full address of a path."""
        return f"{self.protocol[0]}://{self._strip_protocol(name)}"

    # ---- where a path is ----

    def _store_of(self, bucket: str) -> Store:
        store = self._stores.get(bucket)
        if store is None:
            store = shared_store(ObjectURI(scheme=self.protocol[0], bucket=bucket), self._config)
            self._stores[bucket] = store
        return store

    def _located(self, path: Any) -> tuple[Store, str]:
        """The bucket's store, and the key, which is empty for the bucket itself."""
        bucket, _, key = self._strip_protocol(path).partition("/")
        if not bucket:
            raise UnsupportedError(
                f"{self.protocol[0]}:// without a bucket: buckets are not listed; name one, as in bucket/prefix"
            )
        return self._store_of(bucket), key

    def _object_at(self, path: Any, what: str) -> tuple[Store, str]:
        store, key = self._located(path)
        if not key:
            raise IsADirectoryError(
                errno.EISDIR, f"cannot {what} a bucket; name an object, as in bucket/key", store.uri
            )
        return store, key

    # ---- what is there ----

    def info(self, path: Any, **kwargs: Any) -> Entry:
        """Describe a file or directory: ``name``, ``size`` in bytes, ``type``; of a file also ``ETag``, ``mtime``.

        Raises:
            FileNotFoundError: there is neither.
        """
        path = self._strip_protocol(path)
        if not path:
            return directory_entry("")
        store, key = self._located(path)
        if not key:
            holds_any(store, "")  # raises where there is no such bucket
            return directory_entry(path)
        try:
            return file_entry(path.partition("/")[0], store.head(key))
        except NotFoundError:
            if holds_any(store, f"{key}/"):
                return directory_entry(path)
            raise

    def exists(self, path: Any, **kwargs: Any) -> bool:
        """Whether there is a file or directory; refusals and failures raise."""
        try:
            self.info(path)
        except FileNotFoundError:
            return False
        return True

    def isdir(self, path: Any) -> bool:
        """Whether anything lies below a path; refusals and failures raise."""
        path = self._strip_protocol(path)
        if not path:
            return True
        store, key = self._located(path)
        try:
            return holds_any(store, f"{key}/") if key else not holds_any(store, "") or True
        except NotFoundError:
            return False

    def isfile(self, path: Any) -> bool:
        """Whether there is an object; refusals and failures raise."""
        store, key = self._located(path)
        try:
            return bool(key) and store.head(key) is not None
        except NotFoundError:
            return False

    def ls(self, path: Any, detail: bool = True, **kwargs: Any) -> list[Any]:
        """List what lies directly below a path, or the file itself.

        Raises:
            FileNotFoundError: there is neither a file nor a directory.
        """
        path = self._strip_protocol(path)
        store, key = self._located(path)
        bucket = path.partition("/")[0]
        prefix = f"{key}/" if key else ""
        entries = children(store, bucket, prefix)
        if not entries and key:
            try:
                entries = {path: file_entry(bucket, store.head(key))}
            except NotFoundError:
                if not holds_any(store, prefix):  # an empty directory has a marker
                    raise
        return [entries[name] for name in sorted(entries)] if detail else sorted(entries)

    def walk(
        self, path: Any, maxdepth: int | None = None, topdown: bool = True, on_error: Any = None, **kwargs: Any
    ) -> Iterator[Any]:
        """Go through directories, as ``os.walk``; what is not there has none, refusals and failures raise.

        Args:
            path: where to begin.
            maxdepth: levels to go down.
            topdown: directories before what is in them.
            on_error: ``omit``, ``raise`` or a function, as fsspec has it.
            kwargs: for ``ls``.
        """
        yield from super().walk(path, maxdepth, topdown, on_error or _raise_unless_missing, **kwargs)

    def find(
        self, path: Any, maxdepth: int | None = None, withdirs: bool = False, detail: bool = False, **kwargs: Any
    ) -> Any:
        """List all files below a path, without their directories' markers, by one listing; or the file itself.

        Args:
            path: a directory, or a file.
            maxdepth: levels to go down; each directory is listed by itself then.
            withdirs: list directories too.
            detail: a dictionary of paths and what ``info`` tells, rather than sorted paths.
            kwargs: ``prefix``: with it only names that begin with it, in the directory itself.
        """
        path = self._strip_protocol(path)
        if maxdepth is not None:
            found = super().find(path, maxdepth, withdirs, detail=True)
            found = {name: entry or self.info(name) for name, entry in found.items()}
        else:
            found = self._all_below(path, withdirs, kwargs.get("prefix", ""))
        return {name: found[name] for name in sorted(found)} if detail else sorted(found)

    def _all_below(self, path: str, withdirs: bool, name_prefix: str) -> dict[str, Entry]:
        store, key = self._located(path)
        bucket = path.partition("/")[0]
        root = f"{key}/" if key else ""
        found: dict[str, Entry] = {}
        below = False
        try:
            for info in descendants(store, root + name_prefix):
                below = True
                if withdirs:
                    _add_directories(found, bucket, info.key, root)
                if not info.key.endswith("/"):
                    found[f"{bucket}/{info.key}"] = file_entry(bucket, info)
        except NotFoundError:
            return {}  # no such bucket: as a directory that is not there
        if withdirs and (below or not key):
            found[path] = directory_entry(path)
        if not below and key and not name_prefix:
            with suppress(NotFoundError):
                found[path] = file_entry(bucket, store.head(key))
        return found

    def du(
        self, path: Any, total: bool = True, maxdepth: int | None = None, withdirs: bool = False, **kwargs: Any
    ) -> Any:
        """Bytes below a path: their sum, or by path; see ``find``."""
        found = self.find(path, maxdepth=maxdepth, withdirs=withdirs, detail=True, **kwargs)
        sizes = {name: entry["size"] for name, entry in found.items()}
        return sum(sizes.values()) if total else sizes

    def modified(self, path: Any) -> datetime:
        """When a file was written, in UTC; of a directory, when the last of the files in it was."""
        entry = self.info(path)
        files = [entry] if entry["type"] == "file" else self.find(path, detail=True).values()
        # Cloud Storage's listing is asked for no times, which nothing else needs.
        times = [file["LastModified"] or self.info(file["name"])["LastModified"] for file in files]
        if not times:
            raise IsADirectoryError(errno.EISDIR, "a directory without files has no time", entry["name"])
        modified: datetime = max(times)
        return modified

    # ---- files ----

    def open(
        self,
        path: Any,
        mode: str = "rb",
        block_size: int | None = None,
        cache_options: Any = None,
        compression: str | None = None,
        **kwargs: Any,
    ) -> Any:
        """Open an object: ``rb``, ``wb``, ``xb`` (must be new), or text without the ``b``.

        What is written appears whole by ``close``; a ``with`` block that is left by an exception publishes nothing. In
        a transaction it appears when that ends. Sizes and kinds of buffers mean nothing: reads go on ahead by
        themselves, and long ones are split over connections.

        Raises:
            FileNotFoundError, IsADirectoryError, FileExistsError: there is no such object; or one for ``xb``.
            UnsupportedError: appending, reading and writing at once, or compression by this call while writing, since
                nothing would close the object behind the compressor; ``fsspec.open`` does.
        """
        if compression is not None and "r" not in mode:
            raise UnsupportedError(
                f"open {path!r}: use fsspec.open(…, compression={compression!r}), which closes the object too"
            )
        if "b" in mode or "r" in mode:
            return super().open(path, mode, block_size, cache_options, compression, **kwargs)
        text = {name: kwargs.pop(name) for name in ("encoding", "errors", "newline") if name in kwargs}
        binary = super().open(path, mode.replace("t", "") + "b", block_size, cache_options, **kwargs)
        return BucketTextWriter(binary, **text)

    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | None = None,
        autocommit: bool = True,
        cache_options: Any = None,
        **kwargs: Any,
    ) -> BucketReader | BucketWriter:
        store, key = self._object_at(path, "open")
        if mode == "rb":
            return BucketReader(self, path, store, self._head_file(store, key))
        if mode not in ("wb", "xb"):
            raise UnsupportedError(f"open {path!r}: objects are read (rb) or written anew (wb, xb); got {mode!r}")
        if mode == "xb" and self.isfile(path):
            raise exists_already(path)
        writer = store.open_writer(key, if_absent=mode == "xb")
        return BucketWriter(self, path, mode, writer, autocommit=autocommit)

    def _head_file(self, store: Store, key: str) -> ObjectInfo:
        try:
            return store.head(key)
        except NotFoundError as error:
            if holds_any(store, f"{key}/"):
                raise IsADirectoryError(errno.EISDIR, "is a directory", f"{store.uri}/{key}") from error
            raise

    # ---- directories ----

    def mkdir(self, path: Any, create_parents: bool = True, **kwargs: Any) -> None:
        """Do nothing for a directory, which is there once something is in it.

        Raises:
            FileExistsError: it, or a file, is there already.
            UnsupportedError: the path is a bucket, which is made by the provider's own tools.
        """
        self.makedirs(path)

    def makedirs(self, path: Any, exist_ok: bool = False) -> None:
        """As ``mkdir``; with ``exist_ok`` nothing is asked."""
        path = self._strip_protocol(path)
        if exist_ok and "/" in path:
            return
        if self.exists(path):
            if not exist_ok:
                raise FileExistsError(errno.EEXIST, "exists already", path)
        elif "/" not in path:
            raise UnsupportedError(f"mkdir {path!r}: buckets are not created here; use the provider's own tools")

    def rmdir(self, path: Any) -> None:
        """Remove an empty directory: its marker, if it has one.

        Raises:
            OSError: something lies below.
            UnsupportedError: the path is a bucket.
        """
        store, key = self._located(path)
        if not key:
            raise UnsupportedError(f"rmdir {store.uri}: buckets are not removed here; use the provider's own tools")
        if children(store, "", f"{key}/"):
            raise OSError(errno.ENOTEMPTY, "directory not empty", self._strip_protocol(path))
        store.delete(f"{key}/")


@public_in("torchbucket.fsspec")
class S3BucketFileSystem(BucketFileSystem):
    """A :class:`BucketFileSystem` of S3, for ``fsspec.register_implementation``."""

    protocol = ("s3", "s3a")


@public_in("torchbucket.fsspec")
class GcsBucketFileSystem(BucketFileSystem):
    """A :class:`BucketFileSystem` of Cloud Storage, for ``fsspec.register_implementation``."""

    protocol = ("gs", "gcs")


class _MemoryBucketFileSystem(BucketFileSystem):
    protocol = ("memory",)


def _opened(implementation: type[BucketFileSystem], config: StoreConfig) -> BucketFileSystem:
    return implementation(config=config)


def _raise_unless_missing(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


def _add_directories(found: dict[str, Entry], bucket: str, key: str, root: str) -> None:
    """Add the directories between a root and an object, which are there by its key alone."""
    end = key.rfind("/")
    while end > len(root) - 1:
        path = f"{bucket}/{key[:end]}"
        if path in found:
            return
        found[path] = directory_entry(path)
        end = key.rfind("/", 0, end)
