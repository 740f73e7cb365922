"""Whole files at a time: many at once, between bucket, memory and disk."""

# ruff: noqa: ARG002  # fsspec passes what other file systems use

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fsspec.callbacks import DEFAULT_CALLBACK
from fsspec.utils import isfilelike

from torchbucket.config import MIB
from torchbucket.errors import NotFoundError, PreconditionFailedError, UnsupportedError
from torchbucket.fsspec.directories import descendants, holds_any
from torchbucket.fsspec.open_files import exists_already
from torchbucket.store.protocol import ObjectData, Read, Store
from torchbucket.store.store_future import result_of
from torchbucket.store.thread_pool import ThreadPool

if TYPE_CHECKING:
    _FileSystem = Any
else:
    _FileSystem = object

__all__ = ["Transfers"]

# Source: half the default of ``StoreConfig.concurrency``, so that other users of the store are not kept waiting.
_AT_ONCE: Final = 32
# Source: eight parts of 8 MiB; a longer piece would not be read faster.
_PIECE_BYTES: Final = 64 * MIB


class Transfers(_FileSystem):  # type: ignore[misc]  # stands before fsspec's own class
    """The part of a bucket file system that moves whole files, and removes them."""

    # ---- to and from memory ----

    def cat_file(self, path: Any, start: int | None = None, end: int | None = None, **kwargs: Any) -> bytes:
        """The bytes ``[start, end)`` of a file, as slicing gives them; long ones are read over several connections."""
        return self._bytes_of(self._submit(path, start, end))

    def cat(self, path: Any, recursive: bool = False, on_error: str = "raise", **kwargs: Any) -> Any:
        """The content of a file, or of many at once by their paths; see fsspec for ``on_error``."""
        paths = self.expand_path(path, recursive=recursive)
        if recursive or (isinstance(path, str) and paths != [self._strip_protocol(path)]):
            paths = [each for each in paths if not self.isdir(each)]
        if len(paths) == 1 and not isinstance(path, list) and paths[0] == self._strip_protocol(path):
            return self.cat_file(paths[0])
        contents = self._gathered([(each, None, None) for each in paths], on_error == "raise")
        return {
            each: content
            for each, content in zip(paths, contents, strict=True)
            if on_error != "omit" or not isinstance(content, Exception)
        }

    def cat_ranges(
        self,
        paths: Sequence[Any],
        starts: Any,
        ends: Any,
        max_gap: int | None = None,
        on_error: str = "return",
        **kwargs: Any,
    ) -> list[Any]:
        """Ranges of files, all asked for at once; a failure stands in its place unless ``on_error`` is ``raise``."""
        if max_gap is not None:
            raise NotImplementedError("max_gap: ranges are not merged")
        if not isinstance(paths, list):
            raise TypeError(f"paths is a list; got {type(paths).__name__}")
        firsts = starts if isinstance(starts, list) else [starts] * len(paths)
        stops = ends if isinstance(ends, list) else [ends] * len(paths)
        if not len(paths) == len(firsts) == len(stops):
            raise ValueError(
                f"{len(paths)} paths, {len(firsts)} starts and {len(stops)} ends; expected as many of each"
            )
        return self._gathered(list(zip(paths, firsts, stops, strict=True)), on_error == "raise")

    def pipe_file(self, path: Any, value: Any, mode: str = "overwrite", **kwargs: Any) -> None:
        """Write a file from memory, without a copy, in parallel parts where it is large.

        Raises:
            FileExistsError: ``mode`` is ``create``, and there is one.
        """
        store, key = self._object_at(path, "write")
        try:
            store.write(key, value, if_absent=mode == "create")
        except PreconditionFailedError as error:
            raise exists_already(self._strip_protocol(path), error) from error

    def pipe(self, path: Any, value: Any = None, **kwargs: Any) -> None:
        """Write one file, or a dictionary of paths and contents, all at once."""
        if isinstance(path, Mapping):
            _each(lambda item: self.pipe_file(item[0], item[1], **kwargs), path.items())
        else:
            self.pipe_file(path, value, **kwargs)

    def _submit(self, path: Any, start: int | None, end: int | None) -> Future[ObjectData]:
        store: Store
        store, key = self._object_at(path, "read")
        size = version = None
        if (start or 0) < 0 or (end or 0) < 0:
            info = store.head(key)
            size, version = info.size_bytes, info.version
            start, end, _ = slice(start, end).indices(size)
        return store.submit_read(Read(key=key, start=start or 0, stop=end, size_bytes=size, version=version))

    def _bytes_of(self, future: Future[ObjectData]) -> bytes:
        data = result_of(future).data
        return data if isinstance(data, bytes) else bytes(data)

    def _gathered(self, ranges: Sequence[tuple[Any, Any, Any]], raises: bool) -> list[Any]:
        """Each range's bytes, or what went wrong with it; the first that failed is raised where ``raises`` says so."""
        pending: list[Future[ObjectData] | Exception] = []
        results: list[Any] = []
        try:
            for path, start, end in ranges:
                try:
                    pending.append(self._submit(path, start, end))
                except Exception as error:
                    if raises:
                        raise
                    pending.append(error)
            for one in pending:
                try:
                    results.append(one if isinstance(one, Exception) else self._bytes_of(one))
                except Exception as error:
                    if raises:
                        raise
                    results.append(error)
        except BaseException:
            for one in pending:
                if isinstance(one, Future):
                    one.cancel()
            raise
        return results

    # ---- to and from disk ----

    def put_file(
        self, lpath: Any, rpath: Any, callback: Any = DEFAULT_CALLBACK, mode: str = "overwrite", **kwargs: Any
    ) -> None:
        """Write an object from a file on disk, in parallel parts; a directory has nothing to write."""
        source = Path(lpath)
        if source.is_dir():
            return
        store, key = self._object_at(rpath, "write")
        size = source.stat().st_size
        callback.set_size(size)
        try:
            with (
                source.open("rb") as file,
                store.open_writer(key, size_hint=size, if_absent=mode == "create") as writer,
            ):
                while piece := file.read(8 * MIB):
                    writer.write(piece)
                    callback.relative_update(len(piece))
        except PreconditionFailedError as error:
            raise exists_already(self._strip_protocol(rpath), error) from error

    def get_file(
        self, rpath: Any, lpath: Any, callback: Any = DEFAULT_CALLBACK, outfile: Any = None, **kwargs: Any
    ) -> None:
        """Read an object to a file on disk, which appears whole or not at all, or to an open file."""
        target = outfile if outfile is not None else lpath if isfilelike(lpath) else None
        try:
            source = self.open(rpath, "rb")
        except IsADirectoryError:
            if target is not None:
                raise
            Path(lpath).mkdir(parents=True, exist_ok=True)
            return
        with source:
            callback.set_size(source.size)
            if target is not None:
                _copy(source, target, callback)
                return
            path = Path(lpath)
            path.parent.mkdir(parents=True, exist_ok=True)
            partial = path.with_name(f"{path.name}.{secrets.token_hex(4)}.part")
            try:
                with partial.open("xb") as file:
                    _copy(source, file, callback)
                partial.replace(path)
            except BaseException:
                partial.unlink(missing_ok=True)
                raise

    # ---- within and between buckets ----

    def cp_file(self, path1: Any, path2: Any, **kwargs: Any) -> None:
        """Copy an object: on the server's side within a bucket, through this process between two."""
        (source, key), (target, target_key) = self._object_at(path1, "copy"), self._object_at(path2, "write")
        try:
            if source is target:
                source.copy(key, target_key)
            else:
                with self.open(path1, "rb") as reader, target.open_writer(target_key, size_hint=reader.size) as writer:
                    shutil.copyfileobj(reader, writer, 8 * MIB)
        except IsADirectoryError:
            return
        except NotFoundError:
            if not holds_any(source, f"{key}/"):
                raise
            # A directory is there once something is in it.

    def rm_file(self, path: Any) -> None:
        """Remove a file.

        Raises:
            FileNotFoundError: there is none.
        """
        store, key = self._object_at(path, "remove")
        self._head_file(store, key)
        store.delete(key)

    def _rm(self, path: Any) -> None:
        self.rm_file(path)

    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> None:
        """Remove files, or with ``recursive`` directories with all that is in them, many at once.

        Raises:
            FileNotFoundError: there is neither.
            IsADirectoryError: a directory without ``recursive``.
            UnsupportedError: a bucket, which is removed by the provider's own tools; what it holds stays.
        """
        if not recursive:
            _each(self.rm_file, self.expand_path(path))
            return
        if maxdepth is not None:
            _each(self.rm_file, [each for each in self.expand_path(path, True, maxdepth) if not self.isdir(each)])
            return
        for each in self.expand_path(path):
            store, key = self._located(each)
            if not key:
                raise UnsupportedError(f"rm {store.uri}: buckets are not removed here; name what is in it, as bucket/*")
            below = [info.key for info in descendants(store, f"{key}/")]
            if not below:
                self.rm_file(each)
                continue
            _each(store.delete, [key, *below])

    def mv(self, path1: Any, path2: Any, recursive: bool = False, maxdepth: int | None = None, **kwargs: Any) -> None:
        """Copy, then remove; see fsspec. A path moved onto itself stays."""
        if self._strip_protocol(path1) != self._strip_protocol(path2):
            super().mv(path1, path2, recursive=recursive, maxdepth=maxdepth, **kwargs)


def _copy(source: Any, target: Any, callback: Any) -> None:
    memory = memoryview(bytearray(min(_PIECE_BYTES, max(1, source.size))))
    while count := source.readinto(memory):
        target.write(memory[:count])
        callback.relative_update(count)


def _each(function: Callable[[Any], object], items: Iterable[Any]) -> None:
    """Call a function for each item, several at once; raise the first failure when the others have ended."""
    chosen = list(items)
    if len(chosen) == 1:
        function(chosen[0])
    elif chosen:
        with ThreadPool(min(_AT_ONCE, len(chosen)), thread_name_prefix="torchbucket-fsspec") as pool:
            futures = [pool.submit(function, item) for item in chosen]
            try:
                wait(futures)
            except BaseException:  # Ctrl-C, which is not to wait for thousands that have not begun
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        for future in futures:
            future.result()
