"""The objects under a prefix, listed once and kept in columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice, repeat
from typing import Final

from torchbucket.errors import ConfigError
from torchbucket.listing.blocks import Block
from torchbucket.listing.columns import Listing
from torchbucket.listing.parallel import list_ranges
from torchbucket.public import public_in
from torchbucket.store.protocol import ListedPage, ObjectInfo, Store
from torchbucket.store.temporary_names import any_temporary, is_temporary
from torchbucket.uri import key_bytes

__all__ = ["list_objects"]

# Source: 16 requests of 50 ms bring 320 pages a second, about what one thread can read: see docs/listing.md.
_IN_FLIGHT: Final = 16

_DIRECTORY_BLOCK: Final = 1000


@public_in("torchbucket.listing")
def list_objects(
    store: Store,
    prefix: str = "",
    *,
    select: Callable[[ObjectInfo], bool] | None = None,
    versions: bool = False,
    requests_in_flight: int = _IN_FLIGHT,
) -> Listing:
    """List every object whose key begins with ``prefix``, in byte order of the keys.

    A prefix of one page takes one request. A longer one is listed by several requests at once over ranges of keys,
    whatever the names are like; see ``docs/listing.md``. Objects that are there all the time are listed once; those
    written or removed meanwhile may or may not be. This library's own temporary objects, see ``is_temporary``, are left
    out.

    Args:
        store: where the objects are.
        prefix: plain text that may end inside a word.
        select: keeps the objects for which it is true; called once for each, in this thread, in no certain order. Where
            the store's listings do not tell the time of the last change, ``last_modified_s`` is None.
        versions: keep each object's version, as the listing has it, so that reads can be pinned to it.
        requests_in_flight: the most requests at once; 1 lists page after page. The store's ``concurrency`` bounds them
            as well.

    Raises:
        StoreError: the listing failed, or the server's pages contradict one another: a wrong listing is never returned.
    """
    key_bytes(prefix)
    if requests_in_flight < 1:
        raise ConfigError(f"requests_in_flight must be at least 1; got {requests_in_flight}")

    def keep(page: ListedPage) -> Block | None:
        if any_temporary(page.keys):
            page = _selected(page, lambda info: not is_temporary(info.key))
        if select is not None:
            page = _selected(page, select)
        return Block.of(page.keys, page.sizes_bytes, page.versions if versions else None) if page.keys else None

    if store.lists_by_walking:
        blocks = [block for page in _walked(store, prefix) if (block := keep(page)) is not None]
    else:
        blocks = list_ranges(store, prefix, requests_in_flight=requests_in_flight, keep=keep)
    return Listing.joined(blocks)


def _selected(page: ListedPage, select: Callable[[ObjectInfo], bool]) -> ListedPage:
    times = page.modified_s or repeat(None)
    columns = zip(page.keys, page.sizes_bytes, page.versions, times, strict=False)
    infos = (
        ObjectInfo(key=key, size_bytes=size_bytes, version=version, last_modified_s=modified_s)
        for key, size_bytes, version, modified_s in columns
    )
    return _page([info for info in infos if select(info)])


def _walked(store: Store, prefix: str) -> Iterator[ListedPage]:
    infos = store.list(prefix)
    while found := list(islice(infos, _DIRECTORY_BLOCK)):
        yield _page(found)


def _page(infos: list[ObjectInfo]) -> ListedPage:
    return ListedPage(
        keys=[info.key for info in infos],
        sizes_bytes=[info.size_bytes for info in infos],
        versions=[info.version for info in infos],
        modified_s=[info.last_modified_s for info in infos],
        complete=False,
        resume_after=infos[-1].key if infos else "",
    )
