"""Counts and sizes of a listing, against plain arithmetic."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from torchbucket.listing import Listing, PrefixTotal, SizeBin, Summary

SIZES = st.one_of(st.none(), st.integers(0, 70), st.integers(0, (1 << 40)))


@given(st.lists(SIZES, max_size=40))
def test_figures_agree_with_plain_arithmetic(sizes):
    summary = Summary.of(Listing.collect((f"k{i}", size) for i, size in enumerate(sizes)))
    known = sorted(size for size in sizes if size is not None)
    assert (summary.count, summary.unknown_sizes) == (len(sizes), len(sizes) - len(known))
    assert summary.total_bytes == sum(known)
    assert summary.smallest_bytes == (known[0] if known else None)
    assert summary.largest_bytes == (known[-1] if known else None)
    assert summary.median_bytes == (known[(len(known) - 1) // 2] if known else None)
    assert sum(found.count for found in summary.sizes) == len(known)
    for found in summary.sizes:
        inside = [size for size in known if found.start_bytes <= size < found.stop_bytes]
        assert (found.count, found.total_bytes) == (len(inside), sum(inside))
        assert found.stop_bytes == max(1, 2 * found.start_bytes)


def test_bins_hold_the_ends_of_what_a_size_can_be():
    listing = Listing.collect([("a", 0), ("b", 1), ("c", 1 << 62), ("d", (1 << 62) - 1)])
    assert Summary.of(listing).sizes == (
        SizeBin(start_bytes=0, stop_bytes=1, count=1, total_bytes=0),
        SizeBin(start_bytes=1, stop_bytes=2, count=1, total_bytes=1),
        SizeBin(start_bytes=1 << 61, stop_bytes=1 << 62, count=1, total_bytes=(1 << 62) - 1),
        SizeBin(start_bytes=1 << 62, stop_bytes=1 << 63, count=1, total_bytes=1 << 62),
    )


def test_prefixes_are_the_next_segments_by_bytes():
    listing = Listing.collect([("p/a/1", 5), ("p/a/b/2", 6), ("p/c/3", 100), ("p/top", 1), ("p/z/4", 0)])
    summary = Summary.of(listing, prefix="p/")
    assert summary.prefixes == (
        PrefixTotal(prefix="p/c/", count=1, total_bytes=100),
        PrefixTotal(prefix="p/a/", count=2, total_bytes=11),
        PrefixTotal(prefix="p/", count=1, total_bytes=1),
        PrefixTotal(prefix="p/z/", count=1, total_bytes=0),
    )
    assert summary.more_prefixes == 0
    few = Summary.of(listing, prefix="p/", prefixes=1)
    assert (len(few.prefixes), few.more_prefixes) == (1, 3)


def test_nothing_has_no_smallest():
    summary = Summary.of(Listing.collect([]))
    assert (summary.count, summary.total_bytes, summary.sizes, summary.prefixes) == (0, 0, (), ())
    assert summary.median_bytes is None
    assert isinstance(Summary.of(Listing.collect([("a", np.int64(3))])).total_bytes, int)
