"""Which objects are joined: neighbours in the order in which a reader needs them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from torchbucket.listing import Listing

__all__ = ["group_positions"]


def group_positions(
    listing: Listing, positions: Iterable[int], *, maximum_bytes: int, maximum_objects: int
) -> Iterator[list[int]]:
    """Yield the positions in their order, in groups as long as the bounds allow.

    An object that is larger than ``maximum_bytes``, or has no size or version in the listing, is a group of its own.
    """
    group: list[int] = []
    group_bytes = 0
    for position in positions:
        size_bytes = listing.size_bytes(position)
        alone = size_bytes is None or size_bytes > maximum_bytes or listing.version(position) is None
        if group and (alone or len(group) >= maximum_objects or group_bytes + (size_bytes or 0) > maximum_bytes):
            yield group
            group, group_bytes = [], 0
        group.append(position)
        group_bytes += size_bytes or 0
        if alone:
            yield group
            group, group_bytes = [], 0
    if group:
        yield group
