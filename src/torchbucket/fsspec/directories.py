"""A bucket's keys as files and directories: what a path holds, one level or all of them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

from torchbucket.store.list_page import infos_of
from torchbucket.store.protocol import ListedPage, ObjectInfo, Store
from torchbucket.store.store_future import result_of

__all__ = ["Entry", "children", "descendants", "directory_entry", "file_entry", "holds_any"]

Entry = dict[str, Any]
"""What fsspec tells of a file or directory: ``name``, ``size`` in bytes, ``type``, and of a file more."""

# No text of one character sorts after it.
_LAST_CHARACTER: Final = "\U0010ffff"


def file_entry(bucket: str, info: ObjectInfo) -> Entry:
    """Describe an object: ``ETag`` is its version, on Cloud Storage the generation, ``mtime`` seconds since 1970."""
    modified_s = info.last_modified_s
    return {
        "name": f"{bucket}/{info.key}",
        "size": info.size_bytes,
        "type": "file",
        "ETag": info.version,
        "mtime": modified_s,
        "LastModified": None if modified_s is None else datetime.fromtimestamp(modified_s, UTC),
    }


def directory_entry(path: str) -> Entry:
    """Describe a directory, which is nothing but the beginning of keys."""
    return {"name": path, "size": 0, "type": "directory"}


def holds_any(store: Store, prefix: str) -> bool:
    """Whether any object's key begins with ``prefix``.

    Raises:
        NotFoundError: there is no such bucket.
    """
    after = ""
    while True:
        page = _page(store, prefix, after)
        if page.keys or page.complete:
            return bool(page.keys)
        after = page.resume_after


def children(store: Store, bucket: str, prefix: str) -> dict[str, Entry]:
    """What lies directly below a prefix that is empty or ends with a slash, by path; also by a file's path if a
    directory is called the same. The prefix's own marker, an object that is called as it, is left out.

    What a directory holds is not read to its end: the listing goes on behind it.
    """
    files: dict[str, Entry] = {}
    directories: dict[str, Entry] = {}
    after = ""
    while True:
        page = _page(store, prefix, after)
        for info in infos_of(page):
            name, slash, _ = info.key[len(prefix) :].partition("/")
            path = f"{bucket}/{prefix}{name}"
            if slash:
                directories.setdefault(path, directory_entry(path))
            elif name:
                files[path] = file_entry(bucket, info)
        if page.complete:
            return {**directories, **files}
        after = _behind(page, prefix)


def descendants(store: Store, prefix: str) -> Iterator[ObjectInfo]:
    """Every object whose key begins with a prefix, directories' markers too."""
    return store.list(prefix)


def _behind(page: ListedPage, prefix: str) -> str:
    """Where a listing of one level goes on: behind the directory in which the page ends."""
    name, slash, _ = page.resume_after[len(prefix) :].partition("/")
    if not slash or not page.resume_after.startswith(prefix):
        return page.resume_after
    behind = f"{prefix}{name}/{_LAST_CHARACTER}"
    # A key that begins with that very character comes after it: then there is nothing to leap over.
    return behind if behind.encode() > page.resume_after.encode() else page.resume_after


def _page(store: Store, prefix: str, after: str) -> ListedPage:
    return result_of(store.submit_list_page(prefix, start_after=after))
