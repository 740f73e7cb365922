"""What a listing amounts to: how many objects, how large, and where they are."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Self

import numpy as np
import numpy.typing as npt

from torchbucket.listing.columns import UNKNOWN_SIZE, Listing
from torchbucket.public import public_in

__all__ = ["PrefixTotal", "SizeBin", "Summary"]

_PREFIXES: Final = 20


@public_in("torchbucket.listing")
@dataclass(frozen=True, kw_only=True, slots=True)
class SizeBin:
    """Objects of ``[start_bytes, stop_bytes)`` bytes: how many, and their bytes together."""

    start_bytes: int
    stop_bytes: int
    count: int
    total_bytes: int


@public_in("torchbucket.listing")
@dataclass(frozen=True, kw_only=True, slots=True)
class PrefixTotal:
    """What lies under one prefix; an object at the top itself belongs to the prefix that was listed."""

    prefix: str
    count: int
    total_bytes: int


@public_in("torchbucket.listing")
@dataclass(frozen=True, kw_only=True, slots=True)
class Summary:
    """Counts and sizes of a listing.

    Args:
        count: objects.
        unknown_sizes: those whose size is not known; every figure of bytes leaves them out.
        total_bytes: the sizes together.
        smallest_bytes: None where no size is known; so for the next two.
        median_bytes: the lower one of the two in the middle of an even number.
        largest_bytes: the largest size.
        sizes: the bins by powers of two that hold an object; objects of no bytes are in ``[0, 1)``.
        prefixes: the segments below the listed prefix with most bytes, then most objects, then by name.
        more_prefixes: how many segments were left out of ``prefixes``.
    """

    count: int
    unknown_sizes: int
    total_bytes: int
    smallest_bytes: int | None
    median_bytes: int | None
    largest_bytes: int | None
    sizes: tuple[SizeBin, ...]
    prefixes: tuple[PrefixTotal, ...]
    more_prefixes: int

    @classmethod
    def of(cls, listing: Listing, *, prefix: str = "", prefixes: int = _PREFIXES) -> Self:
        """Count a listing.

        Args:
            listing: the objects.
            prefix: what was listed; the next segment of each key, up to its slash, is what is counted by.
            prefixes: how many of them to keep.
        """
        known = np.sort(listing.sizes_bytes[listing.sizes_bytes != UNKNOWN_SIZE])
        totals = _by_segment(listing, prefix)
        ordered = sorted(totals, key=lambda total: (-total.total_bytes, -total.count, total.prefix))
        return cls(
            count=len(listing),
            unknown_sizes=len(listing) - len(known),
            total_bytes=int(known.sum()),
            smallest_bytes=int(known[0]) if len(known) else None,
            median_bytes=int(known[(len(known) - 1) // 2]) if len(known) else None,
            largest_bytes=int(known[-1]) if len(known) else None,
            sizes=_bins(known),
            prefixes=tuple(ordered[:prefixes]),
            more_prefixes=max(0, len(ordered) - prefixes),
        )


def _bins(ascending: npt.NDArray[np.int64]) -> tuple[SizeBin, ...]:
    edges = [0, *(1 << exponent for exponent in range(64))]
    # The last edge is beyond int64, and so beyond every size.
    ends = [*np.searchsorted(ascending, edges[:-1]).tolist(), len(ascending)]
    bins = [
        SizeBin(start_bytes=start, stop_bytes=stop, count=last - first, total_bytes=int(ascending[first:last].sum()))
        for (start, stop), (first, last) in zip(pairwise(edges), pairwise(ends), strict=True)
    ]
    return tuple(found for found in bins if found.count)


def _by_segment(listing: Listing, prefix: str) -> list[PrefixTotal]:
    counts: dict[str, int] = {}
    sizes: dict[str, int] = {}
    skipped = len(prefix)
    for key, size_bytes in zip(listing.keys, listing.sizes_bytes.tolist(), strict=True):
        slash = key.find("/", skipped)
        segment = key[: slash + 1] if slash >= 0 else prefix
        counts[segment] = counts.get(segment, 0) + 1
        sizes[segment] = sizes.get(segment, 0) + (0 if size_bytes == UNKNOWN_SIZE else size_bytes)
    return [PrefixTotal(prefix=segment, count=counts[segment], total_bytes=sizes[segment]) for segment in counts]
