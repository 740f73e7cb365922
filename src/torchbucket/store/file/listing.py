"""The walk through a directory that lists its files as an object store lists keys."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from torchbucket.errors import NotFoundError, PermissionDeniedError, StoreError, UnsupportedError
from torchbucket.store.temporary_names import is_temporary
from torchbucket.uri import key_bytes

__all__ = ["is_being_written", "list_files"]


def is_being_written(name: str) -> bool:
    """Whether a file's name is that of one that is being written, which is no object yet."""
    return name.startswith(".") and is_temporary(name)


def list_files(
    root: str, uri: str, prefix: str, *, start_after: str = "", temporaries: bool = False
) -> Iterator[tuple[str, os.stat_result]]:
    """Yield key and status of each regular file whose key begins with ``prefix``, in the order of the keys' bytes.

    One directory is read at a time. Sockets, pipes and devices are no objects and are passed over.

    Args:
        root: the directory's real path.
        uri: the root's address, for messages.
        prefix: plain text; only the directories that can hold such keys are read.
        start_after: keys up to this one are left out.
        temporaries: yield the temporary files of writers, and only those.

    Raises:
        NotFoundError: the root does not exist.
        UnsupportedError: a name is not valid UTF-8, or a link leads out of the root, nowhere, or to a directory: to
            leave one out would silently shorten a data set.
    """
    if not os.path.isdir(root):  # noqa: PTH112  # text all the way: a Path for each of a million files is slow
        raise NotFoundError(f"list {uri}: there is no such directory; check the address", operation="list", uri=uri)
    directory, _, _ = prefix.rpartition("/")
    if any(segment in ("", ".", "..") for segment in directory.split("/")) and directory:
        return  # No file has such a key.
    base = f"{directory}/" if directory else ""
    yield from _Walk(root, uri, prefix, key_bytes(start_after), temporaries).below(base)


class _Walk:
    def __init__(self, root: str, uri: str, prefix: str, start_after: bytes, temporaries: bool) -> None:
        self.root = root
        self.uri = uri
        self.prefix = prefix
        self.start_after = start_after
        self.temporaries = temporaries

    def below(self, base: str) -> Iterator[tuple[str, os.stat_result]]:
        """Yield the files of the directory ``base``, which is empty or ends with a slash, and of those in it."""
        for name, is_directory, entry in self._entries(base):
            key = base + name.decode()
            if is_directory:
                # All keys below come before the start unless they are after it or share this beginning with it.
                first = key_bytes(key)
                if first > self.start_after or self.start_after.startswith(first):
                    yield from self.below(key)
            elif key.startswith(self.prefix) and (not self.start_after or key_bytes(key) > self.start_after):
                try:
                    found = entry.stat()
                except FileNotFoundError:
                    continue  # Removed since the directory was read.
                if stat.S_ISREG(found.st_mode):
                    yield key, found

    def _entries(self, base: str) -> list[tuple[bytes, bool, os.DirEntry[str]]]:
        found = []
        try:
            with os.scandir(f"{self.root}/{base}") as entries:
                for entry in entries:
                    try:
                        name = entry.name.encode()
                    except UnicodeEncodeError:
                        raise self._unsupported(base, entry.name, "its name is not UTF-8; rename it") from None
                    key = base + entry.name
                    if not key.startswith(self.prefix) and not self.prefix.startswith(key + "/"):
                        continue
                    if is_being_written(entry.name) != self.temporaries and not entry.is_dir():
                        continue
                    if entry.is_symlink():
                        self._check_link(base, entry)
                    is_directory = entry.is_dir()
                    # With its slash a directory sorts where the keys below it do: `a.b` comes before `a/b`.
                    found.append((name + b"/" if is_directory else name, is_directory, entry))
        except (FileNotFoundError, NotADirectoryError):
            return []  # Nothing has the prefix, or the directory was removed since its parent was read.
        except PermissionError as error:
            message = f"list {self.uri}/{base}: the operating system refused ({error.strerror}); check the mode"
            raise PermissionDeniedError(message, operation="list", uri=self.uri) from error
        found.sort(key=lambda item: item[0])
        return found

    def _check_link(self, base: str, entry: os.DirEntry[str]) -> None:
        real = os.path.realpath(entry.path)
        if entry.is_dir():
            raise self._unsupported(base, entry.name, "it is a link to a directory; list that directory instead")
        if os.path.commonpath((self.root, real)) != self.root:
            raise self._unsupported(base, entry.name, f"it is a link out of the root, to {real}; copy the file instead")
        if not entry.is_file():
            raise self._unsupported(base, entry.name, f"it is a link to {real}, which is no file; remove it")

    def _unsupported(self, base: str, name: str, why: str) -> StoreError:
        message = f"list {self.uri}: cannot list {base + name!r}: {why}"
        return UnsupportedError(message, operation="list", uri=self.uri)
