"""A reader that a transform returns cannot leave a worker: the loader says so instead of waiting for ever."""

from __future__ import annotations

import pickle
import traceback

import pytest
from torch.utils.data import DataLoader

from torchbucket import ConfigError, IterableDataset, MapDataset
from torchbucket.store import open_store


@pytest.fixture(params=["whole", "lazy"])
def settings(request, tmp_path) -> dict:
    for number in range(4):
        open_store(f"file://{tmp_path}").write(f"train/{number}", b"abc")
    return {"uri": f"file://{tmp_path}/train/", "fetch": request.param}


@pytest.mark.parametrize("kind", [MapDataset, IterableDataset])
@pytest.mark.parametrize(
    "transform", [lambda reader: reader, lambda reader: {"key": reader.key, "parts": [(0, reader)]}]
)
def test_a_returned_reader_ends_the_epoch_with_an_error_that_names_it(kind, transform, settings):
    loader = DataLoader(kind.from_prefix(transform=transform, **settings), batch_size=None, num_workers=1)
    with pytest.raises(ConfigError, match=r"train/0: transform.*return what you read") as caught:
        list(loader)
    traceback.clear_frames(caught.tb)  # which hold the worker: the garbage collector, at last, would wait 5 s for it


def test_without_workers_readers_may_be_kept_but_not_pickled(settings):
    readers = list(IterableDataset.from_prefix(transform=lambda reader: reader, **settings))
    assert [reader.read() for reader in readers] == [b"abc"] * 4
    with pytest.raises(TypeError, match="cannot be pickled: keep what you read"):
        pickle.dumps(readers[0])
