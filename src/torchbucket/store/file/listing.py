"""The walk through a directory that lists its files as an object store lists keys."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from itertools import accumulate

from torchbucket.errors import NotFoundError, PermissionDeniedError, UnsupportedError
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

    One directory is read at a time. Links are followed, to files and to directories. Sockets, pipes, devices, links to
    nothing and links to a directory that they lie in, which would go round for ever, are no objects and passed over.

    Args:
        root: the directory's path without a slash at its end, so empty for ``/``.
        uri: the root's address, for messages.
        prefix: plain text; only the directories that can hold such keys are read.
        start_after: keys up to this one are left out.
        temporaries: yield the temporary files of writers, and only those: every one in a directory that can hold such
            keys, since it lies beside its target but its own name begins otherwise.

    Raises:
        NotFoundError: the root does not exist.
        UnsupportedError: a name is not valid UTF-8: to leave it out would silently shorten a data set.
    """
    if not os.path.isdir(f"{root}/"):  # noqa: PTH112  # text all the way: a Path for each of a million files is slow
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
            elif (self.temporaries or key.startswith(self.prefix)) and (
                not self.start_after or key_bytes(key) > self.start_after
            ):
                try:
                    found = entry.stat()
                except FileNotFoundError:
                    continue  # A link to nothing, or removed since the directory was read.
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
                        message = f"list {self.uri}: the name of {base + entry.name!r} is not UTF-8; rename it"
                        raise UnsupportedError(message, operation="list", uri=self.uri) from None
                    key = base + entry.name
                    is_wanted = self.temporaries and is_being_written(entry.name)
                    if not is_wanted and not key.startswith(self.prefix) and not self.prefix.startswith(key + "/"):
                        continue
                    if entry.is_symlink() and self._leads_nowhere(base, entry.path):
                        continue
                    is_directory = entry.is_dir()
                    if not is_directory and is_being_written(entry.name) != self.temporaries:
                        continue
                    # With its slash a directory sorts where the keys below it do: `a.b` comes before `a/b`.
                    found.append((name + b"/" if is_directory else name, is_directory, entry))
        except (FileNotFoundError, NotADirectoryError):
            return []  # Nothing has the prefix, or the directory was removed since its parent was read.
        except PermissionError as error:
            message = f"list file://{error.filename}: the operating system refused ({error.strerror}); check the mode"
            raise PermissionDeniedError(message, operation="list", uri=self.uri) from error
        found.sort(key=lambda item: item[0])
        return found

    def _leads_nowhere(self, base: str, path: str) -> bool:
        """Whether a link has no target, or a directory on the way to the link itself."""
        try:
            target = os.stat(path)  # noqa: PTH116
        except OSError:
            return True
        directories = accumulate(base.split("/")[:-1], "{}/{}".format, initial=self.root)
        return stat.S_ISDIR(target.st_mode) and any(
            os.path.samestat(os.stat(directory or "/"), target)  # noqa: PTH116
            for directory in directories
        )
