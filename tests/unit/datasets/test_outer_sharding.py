"""Layers around a data set that share out themselves are recognised where they call it, and told what they would lose.

The frameworks' own classes are in ``tests/integration/datasets/test_frameworks.py``.
"""

from __future__ import annotations

import traceback

import pytest
import torch.distributed
from torch.utils.data import DataLoader
from torch.utils.data import IterableDataset as TorchIterableDataset
from torch.utils.data.datapipes.iter import IterableWrapper

from torchbucket import ConfigError, IterableDataset, TarDataset
from torchbucket.store import open_store

COUNT = 10


@pytest.fixture
def prefix() -> str:
    store = open_store("memory://outer-sharding")
    for number in range(COUNT):
        store.write(f"train/{number}", b"%d" % number)
    return "memory://outer-sharding/train/"


def stream(prefix: str, **settings) -> IterableDataset[bytes]:
    return IterableDataset.from_prefix(prefix, **settings)


class Wrapper(TorchIterableDataset):
    """A user's data set around ours that shares out to the workers itself, as ports from other libraries do."""

    def __init__(self, dataset) -> None:
        self.dataset = dataset

    def __iter__(self):
        worker = torch.utils.data.get_worker_info()
        for number, sample in enumerate(self.dataset):
            if number % worker.num_workers == worker.id:
                yield sample


def test_without_sharding_code_around_the_data_set_shares_out(prefix):
    loader = DataLoader(Wrapper(stream(prefix, sharding=False)), batch_size=None, num_workers=3)
    assert sorted(map(int, loader)) == list(range(COUNT))


def test_without_sharding_every_reader_reads_everything_in_one_order(prefix, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    dataset = stream(prefix, sharding=False, shuffle=True)
    alone = list(dataset)
    assert sorted(map(int, alone)) == list(range(COUNT))
    dataset.set_epoch(0)
    by_workers = list(DataLoader(dataset, batch_size=None, num_workers=2))
    assert by_workers[::2] == by_workers[1::2] == alone
    assert dataset.batches_in_epoch(batch_size=4, num_workers=2) == 6


@pytest.mark.parametrize("kind", [IterableDataset, TarDataset])
def test_a_rank_means_nothing_without_sharding(kind, prefix):
    with pytest.raises(ConfigError, match="rank=1, world_size=2"):
        kind.from_prefix(prefix, sharding=False, rank=1, world_size=2, select=lambda info: True)
    with pytest.raises(ConfigError, match="sharding must be True or False"):
        kind.from_prefix(prefix, sharding="none", select=lambda info: True)


def test_counting_batches_needs_shares(prefix):
    with pytest.raises(ConfigError, match="sharding=False"):
        stream(prefix, sharding=False).state_after(epoch=0, batches=1, batch_size=2, num_workers=0)


@pytest.mark.parametrize("workers", [0, 3])
def test_a_sharding_filter_is_refused_only_where_it_shares_out(prefix, workers):
    loader = DataLoader(IterableWrapper(stream(prefix)).sharding_filter(), batch_size=None, num_workers=workers)
    if workers:
        with pytest.raises(ConfigError, match="leave sharding_filter out") as caught:
            list(loader)
        traceback.clear_frames(caught.tb)  # which hold the workers: the garbage collector would wait 5 s for each
    else:
        assert list(map(int, loader)) == list(range(COUNT))
