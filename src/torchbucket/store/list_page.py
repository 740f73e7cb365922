"""The page of a listing: how it is made of objects, and what makes it wrong."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise, repeat

from torchbucket.errors import StoreError
from torchbucket.store.protocol import ListedPage, ObjectInfo

__all__ = ["check_keys", "infos_of", "page_of", "wrong_listing"]


def wrong_listing(uri: str, what: str) -> StoreError:
    """The error for a listing that cannot be right."""
    return StoreError(
        f"list {uri}: {what}; the listing would be wrong or endless. The server, or a cache before it, is at fault",
        operation="list_objects",
        uri=uri,
    )


def check_keys(keys: list[str], *, prefix: str, after: str, uri: str) -> None:
    """Raise ``StoreError`` unless the keys begin with ``prefix``, come after ``after`` and ascend, each once.

    Texts compare by code points, which is the order of their UTF-8 bytes.
    """
    if not keys:
        return
    if keys[0] <= after:
        raise wrong_listing(uri, f"{keys[0]!r} came after {after!r}")
    for before, key in pairwise(keys):
        if key <= before:
            raise wrong_listing(uri, f"{key!r} came after {before!r}")
    # What lies between two texts that begin with the prefix begins with it, too.
    for key in (keys[0], keys[-1]):
        if not key.startswith(prefix):
            raise wrong_listing(uri, f"{key!r} came, which does not begin with {prefix!r}")
    try:
        "".join(keys).encode()
    except UnicodeEncodeError:
        raise wrong_listing(uri, "a name came that is not valid Unicode text") from None


def infos_of(page: ListedPage) -> Iterator[ObjectInfo]:
    """Yield the objects of a page one by one."""
    columns = zip(page.keys, page.sizes_bytes, page.versions, page.modified_s or repeat(None), strict=False)
    for key, size_bytes, version, modified_s in columns:
        yield ObjectInfo(key=key, size_bytes=size_bytes, version=version, last_modified_s=modified_s)


def page_of(infos: Sequence[ObjectInfo], limit: int, start_after: str) -> ListedPage:
    """A page of up to ``limit`` objects, of a store that looked for one more."""
    complete = len(infos) <= limit
    kept = infos[:limit]
    return ListedPage(
        keys=[info.key for info in kept],
        sizes_bytes=[info.size_bytes for info in kept],
        versions=[info.version for info in kept],
        complete=complete,
        resume_after=kept[-1].key if kept else start_after,
        modified_s=[info.last_modified_s for info in kept],
    )
