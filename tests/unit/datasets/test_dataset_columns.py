"""What a data set tells of its objects."""

from __future__ import annotations

import pytest

from torchbucket import IterableDataset, MapDataset


@pytest.mark.parametrize("kind", [MapDataset, IterableDataset])
def test_a_data_set_shows_its_names_and_sizes(scripted, kind):
    scripted({"a/b": b"12", "a.b": b"1", "é": b"123"})
    dataset = kind.from_prefix("memory://scripted/")
    assert dataset.keys == ["a.b", "a/b", "é"]
    assert dataset.listing.sizes_bytes.tolist() == [1, 2, 3]
    assert repr(dataset) == f"{kind.__name__}(3 objects in memory://scripted/)"
