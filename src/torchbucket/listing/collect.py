"""The objects under a prefix, listed once and kept in columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from torchbucket.errors import ConfigError
from torchbucket.listing.blocks import Block
from torchbucket.listing.columns import Listing
from torchbucket.listing.parallel import RangedListing
from torchbucket.public import public_in
from torchbucket.store.list_page import infos_of
from torchbucket.store.protocol import ListedPage, ObjectInfo, Store
from torchbucket.store.temporary_names import any_temporary, is_temporary
from torchbucket.uri import key_bytes

__all__ = ["list_objects"]

# Source: 16 requests of 50 ms bring 320 pages a second, about what one thread can read: see docs/listing.md.
_IN_FLIGHT: Final = 16


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

    def is_wanted(info: ObjectInfo) -> bool:
        return not is_temporary(info.key) and (select is None or select(info))

    def keep(page: ListedPage) -> Block | None:
        if select is not None or any_temporary(page.keys):
            return next(Block.of_infos(filter(is_wanted, infos_of(page)), versions=versions), None)
        # No object is described one by one where nobody looks at it.
        return Block.of(page.keys, page.sizes_bytes, page.versions if versions else None) if page.keys else None

    if store.lists_by_walking:
        return Listing.joined([*Block.of_infos(filter(is_wanted, store.list(prefix)), versions=versions)])
    return Listing.joined(RangedListing(store, prefix, requests_in_flight, keep).run())
