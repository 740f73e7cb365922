"""A large listing reaches workers that are sent it as memory that they share, and a small one as it is."""

from __future__ import annotations

import multiprocessing
import pickle

import pytest

from torchbucket import IterableDataset, MapDataset
from torchbucket.datasets.shared_block import SharedBlock
from torchbucket.datasets.shared_listing import SharedListing
from torchbucket.listing import Listing
from torchbucket.listing.blocks import Block

COUNT = 200_000


def addresses(count: int) -> list[str]:
    return [f"s3://bucket/train/{index:07}-ü.bin" for index in range(count)]


def describe(dataset, results) -> None:
    """Run in a child: what it sees, and whether the columns lie in the block."""
    keys = dataset.keys
    results.put([len(keys), keys[0], keys[len(keys) - 1], keys[5:7], shares_memory(dataset)])


def shares_memory(dataset) -> bool:
    return not dataset.listing.sizes_bytes.flags.owndata and not dataset.listing.sizes_bytes.flags.writeable


@pytest.mark.parametrize("method", ["forkserver", pytest.param("spawn", marks=pytest.mark.nightly)])
def test_children_map_the_columns_of_a_large_listing(method):
    context = multiprocessing.get_context(method)
    dataset = MapDataset.from_objects(addresses(COUNT))
    before = [len(dataset), dataset.keys[0], dataset.keys[-1], dataset.keys[5:7]]
    results = context.Queue()
    children = [context.Process(target=describe, args=(dataset, results)) for _ in range(2)]
    for child in children:
        child.start()
    found = [results.get(timeout=100) for _ in children]
    for child in children:
        child.join()
    assert found == [[*before, True]] * 2
    assert [*before, True] == [
        len(dataset),
        dataset.keys[0],
        dataset.keys[-1],
        dataset.keys[5:7],
        shares_memory(dataset),
    ]


def test_to_other_places_it_goes_by_value():
    dataset = IterableDataset.from_objects(addresses(COUNT))
    received = pickle.loads(pickle.dumps(dataset))
    assert received.keys == dataset.keys
    assert not shares_memory(dataset)


def test_a_listing_is_the_same_through_shared_memory():
    keys = [f"k{index:04}é" for index in range(3000)]
    blocks = [Block.of(keys[at : at + 999], list(range(len(keys[at : at + 999])))) for at in range(0, 3000, 999)]
    versions = [str(number) for number in range(10)]
    for listing in (
        Listing.joined(blocks),
        Listing.joined([Block.of(keys[:10], [1] * 10, versions)]),
        Listing.joined([Block.of(keys[:3], [1] * 3, ["a", None, '"x"'])]),
        Listing.collect([]),
    ):
        opened = SharedListing(listing).opened()
        assert list(opened.keys) == list(listing.keys)
        assert opened.sizes_bytes.tolist() == listing.sizes_bytes.tolist()
        assert [opened.version(at) for at in range(len(listing))] == [listing.version(at) for at in range(len(listing))]
        with pytest.raises(ValueError, match="read-only"):
            opened.sizes_bytes[:] = 0


def test_a_block_goes_to_children_only():
    with pytest.raises(TypeError, match="child processes only"):
        pickle.dumps(SharedBlock(8))


def test_blocks_leave_no_open_file_behind():
    from pathlib import Path

    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(50):
        SharedBlock(1 << 20).memory[:2] = b"ab"
    assert len(list(Path("/proc/self/fd").iterdir())) <= before
