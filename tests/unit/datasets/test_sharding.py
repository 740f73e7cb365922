"""Every object is read once, over all ranks and workers, whoever told them their numbers."""

from __future__ import annotations

import pickle
from types import SimpleNamespace

import pytest
import torch.distributed
from hypothesis import given
from hypothesis import strategies as st

import torchbucket.datasets.epochs.sharding
from torchbucket import ConfigError, IterableDataset
from torchbucket.datasets.epochs.sharding import Rank, Shard

FIVE = {f"k{index}": b"" for index in range(5)}


@pytest.fixture(autouse=True)
def no_launcher(monkeypatch):
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.delenv("WORLD_SIZE", raising=False)


def be_worker(monkeypatch, worker: int, workers: int) -> None:
    monkeypatch.setattr(
        torchbucket.datasets.epochs.sharding, "get_worker_info", lambda: SimpleNamespace(id=worker, num_workers=workers)
    )


def be_initialised(monkeypatch, rank: int, world_size: int) -> None:
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: rank)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: world_size)


@given(count=st.integers(0, 300), workers_by_rank=st.lists(st.integers(1, 5), min_size=1, max_size=6))
def test_each_position_once_in_order_and_evenly(count, workers_by_rank):
    """Also where ranks have different numbers of workers."""
    world_size = len(workers_by_rank)
    shares = [
        [
            Shard(rank=Rank(rank=rank, world_size=world_size), worker=worker, workers=workers).places(count)
            for worker in range(workers)
        ]
        for rank, workers in enumerate(workers_by_rank)
    ]
    assert sorted(position for rank in shares for share in rank for position in share) == list(range(count))
    of_ranks = [sum(map(len, rank)) for rank in shares]
    assert max(of_ranks) - min(of_ranks) <= 1
    for rank in shares:
        assert max(map(len, rank)) - min(map(len, rank)) <= 1
        assert all(share.step > 0 for share in rank)


def test_alone_a_reader_gets_everything(scripted):
    scripted(FIVE)
    assert keys_of(dataset()) == ["k0", "k1", "k2", "k3", "k4"]


def test_given_numbers_override_all_others(scripted, monkeypatch):
    scripted(FIVE)
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "5")
    be_initialised(monkeypatch, 0, 5)
    assert keys_of(dataset(rank=1, world_size=2)) == ["k1", "k3"]


def test_torch_distributed_overrides_the_environment(scripted, monkeypatch):
    scripted(FIVE)
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "5")
    be_initialised(monkeypatch, 1, 3)
    assert keys_of(dataset()) == ["k1", "k4"]


def test_the_environment_counts_when_the_iteration_starts(scripted, monkeypatch):
    scripted(FIVE)
    stream = dataset()
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert keys_of(stream) == ["k1", "k3"]
    monkeypatch.setenv("RANK", "0")
    assert keys_of(stream) == ["k0", "k2", "k4"]


def test_a_rank_is_dealt_out_to_its_workers(scripted, monkeypatch):
    scripted(FIVE)
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    be_worker(monkeypatch, 1, 2)
    assert keys_of(dataset()) == ["k2"]


def test_a_spawned_worker_learns_its_parents_rank(scripted, monkeypatch):
    scripted(FIVE)
    stream = dataset()
    with monkeypatch.context() as parent:
        be_initialised(parent, 1, 2)
        sent = pickle.dumps(stream)
    received = pickle.loads(sent)
    with monkeypatch.context() as worker:
        be_worker(worker, 0, 1)
        assert keys_of(received) == ["k1", "k3"]
    # Elsewhere what was true of the sender says nothing.
    assert keys_of(received) == ["k0", "k1", "k2", "k3", "k4"]


def test_more_readers_than_objects_leave_some_with_nothing(scripted):
    scripted(FIVE)
    assert keys_of(dataset(rank=6, world_size=7)) == []


@pytest.mark.parametrize(
    ("rank", "world_size"), [("1", None), (None, "2"), ("one", "2"), ("-1", "2"), ("2", "2"), ("0", "0")]
)
def test_a_broken_environment_is_refused(scripted, monkeypatch, rank, world_size):
    scripted(FIVE)
    for name, value in (("RANK", rank), ("WORLD_SIZE", world_size)):
        if value is not None:
            monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=r"(?i)rank.*world_size"):
        iter(dataset())


def dataset(**settings):
    return IterableDataset.from_prefix("memory://scripted/", transform=key_of, **settings)


def key_of(reader):
    return reader.key


def keys_of(stream):
    return list(stream)
