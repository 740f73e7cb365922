"""The part of a listing that a function keeps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from torchbucket.listing import Listing
from torchbucket.listing.blocks import Block
from torchbucket.store.protocol import ObjectInfo

__all__ = ["selected"]

_BLOCK_OBJECTS: Final = 1000  # keys that hold in common what they begin with; as many as a page of a listing has


def selected(listing: Listing, select: Callable[[ObjectInfo], bool]) -> Listing:
    """The objects for which ``select`` is true, in their order, with their sizes and versions.

    Args:
        listing: all objects; their sizes are known.
        select: called once for each, in order, in this thread. ``last_modified_s`` is None: listings do not keep it.
    """
    blocks = []
    for start in range(0, len(listing), _BLOCK_OBJECTS):
        stop = min(start + _BLOCK_OBJECTS, len(listing))
        sizes = listing.sizes_bytes[start:stop].tolist()
        infos = (
            ObjectInfo(key=key, size_bytes=size_bytes, version=listing.version(position))
            for position, key, size_bytes in zip(range(start, stop), listing.keys[start:stop], sizes, strict=True)
        )
        kept = [info for info in infos if select(info)]
        if kept:
            versions = None if listing.versions is None else [info.version for info in kept]
            blocks.append(Block.of([info.key for info in kept], [info.size_bytes for info in kept], versions))
    return Listing.joined(blocks)
