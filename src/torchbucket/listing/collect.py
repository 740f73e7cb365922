"""The objects under a prefix, listed once and kept in columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from torchbucket.listing.columns import Listing
from torchbucket.store.protocol import ObjectInfo, Store

__all__ = ["list_objects"]


def list_objects(store: Store, prefix: str = "", *, select: Callable[[ObjectInfo], bool] | None = None) -> Listing:
    """List every object whose key begins with ``prefix``, in byte order of the keys.

    Args:
        store: where the objects are.
        prefix: plain text that may end inside a word.
        select: keeps the objects for which it is true; called once for each, in this process.

    Raises:
        StoreError: the listing failed.
    """

    def kept() -> Iterable[tuple[str, int | None]]:
        for info in store.list(prefix):
            if select is None or select(info):
                yield info.key, info.size_bytes

    return Listing.collect(kept(), prefix=prefix)
