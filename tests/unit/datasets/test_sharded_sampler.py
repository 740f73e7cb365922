"""The sampler of map-style data sets: shares, epochs, states, and who else puts samplers in front of it."""

from __future__ import annotations

import json

import pytest
import torch
from torch.utils.data import BatchSampler, DataLoader, Subset
from torch.utils.data.distributed import DistributedSampler

from torchbucket import ConfigError, IterableDataset, MapDataset, ShardedSampler, merge_states

COUNT = 23


@pytest.fixture
def dataset(scripted) -> MapDataset[str]:
    scripted({f"k{index:02}": b"" for index in range(COUNT)})
    return MapDataset.from_prefix("memory://scripted/", transform=key_of)


def key_of(reader) -> str:
    return reader.key


def test_its_order_and_shares_are_those_of_streams(dataset):
    for rank in range(3):
        sampler = ShardedSampler(dataset, seed=8, even="drop", rank=rank, world_size=3)
        stream = IterableDataset.from_prefix(
            "memory://scripted/", transform=key_of, shuffle=True, seed=8, even="drop", rank=rank, world_size=3
        )
        for _ in range(2):
            assert [dataset.keys[index] for index in sampler] == list(stream)


@pytest.mark.parametrize(("even", "lengths"), [(True, [8, 8, 8]), ("drop", [7, 7, 7]), (False, [8, 8, 7])])
def test_each_index_once_and_evenly_where_asked(dataset, even, lengths):
    samplers = [ShardedSampler(dataset, even=even, rank=rank, world_size=3) for rank in range(3)]
    shares = [list(sampler) for sampler in samplers]
    assert [len(share) for share in shares] == [len(sampler) for sampler in samplers] == lengths
    found = {index for share in shares for index in share}
    assert len(found) == min(COUNT, sum(lengths))
    if not even:
        assert sum(lengths) == COUNT


def test_epochs_differ_advance_and_can_be_named(dataset):
    sampler = ShardedSampler(dataset)
    orders = [list(sampler) for _ in range(3)]
    assert sampler.epoch == 3
    assert len(set(map(tuple, orders))) == 3
    sampler.set_epoch(1)
    assert list(sampler) == orders[1]
    assert list(ShardedSampler(dataset, shuffle=False)) == list(range(COUNT))


def test_the_rank_is_found_when_the_iteration_starts(dataset, monkeypatch):
    sampler = ShardedSampler(dataset, shuffle=False)
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert list(sampler) == [1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 0]


@pytest.mark.parametrize("consumed", [0, 1, 9, COUNT - 1])
def test_it_resumes_at_the_next_index(dataset, consumed):
    sampler = ShardedSampler(dataset)
    orders = [list(sampler) for _ in range(2)]
    sampler.set_epoch(0)
    indices = iter(sampler)
    for _ in range(consumed):
        next(indices)
    resumed = ShardedSampler(dataset)
    resumed.load_state_dict(json.loads(json.dumps(sampler.state_dict())))
    resumed.set_epoch(0)  # as loops do that name every epoch
    assert len(resumed) == COUNT  # of the whole epoch: what Lightning counts batches against
    assert list(resumed) == orders[0][consumed:]
    assert list(resumed) == orders[1]
    resumed.set_epoch(0)
    assert list(resumed) == orders[0]


def test_other_ranks_take_up_merged_states(dataset):
    seen, states = [], []
    for rank in range(2):
        sampler = ShardedSampler(dataset, even=False, rank=rank, world_size=2)
        indices = iter(sampler)
        seen += [next(indices) for _ in range(3 + rank)]
        states.append(sampler.state_dict())
    for rank in range(3):
        sampler = ShardedSampler(dataset, even=False, rank=rank, world_size=3)
        sampler.load_state_dict(merge_states(states))
        seen += list(sampler)
    assert sorted(seen) == list(range(COUNT))
    with pytest.raises(ConfigError, match=r"torchbucket\.merge_states"):
        one = ShardedSampler(dataset, even=False)
        one.load_state_dict(states[0])
        iter(one)


def test_the_state_after_batches_of_a_plain_loader(dataset):
    """The sampler itself is ahead of what was consumed."""
    whole = list(DataLoader(dataset, batch_size=4, sampler=ShardedSampler(dataset), collate_fn=list))
    state = ShardedSampler(dataset).state_after(epoch=0, batches=2, batch_size=4)
    resumed = ShardedSampler(dataset)
    resumed.load_state_dict(state)
    assert list(DataLoader(dataset, batch_size=4, sampler=resumed, collate_fn=list)) == whole[2:]


def test_a_state_of_other_names_is_refused(dataset, scripted):
    state = ShardedSampler(dataset).state_dict()
    scripted({f"x{index:02}": b"" for index in range(COUNT)})
    with pytest.raises(ConfigError, match="another data set"):
        ShardedSampler(MapDataset.from_prefix("memory://scripted/")).load_state_dict(state)


def test_frameworks_see_a_sampler_that_shares_already(dataset):
    """Lightning puts a DistributedSampler in front of any other, which would share out a share."""
    assert isinstance(ShardedSampler(dataset), DistributedSampler)


@pytest.mark.parametrize(
    "settings",
    [
        {"shuffle": True, "generator": torch.Generator().manual_seed(0)},
        {"sampler": "distributed"},
        {"batch_sampler": "batches"},
    ],
)
def test_torch_s_own_samplers_work_as_well(dataset, settings):
    if settings.get("sampler"):
        settings = {"sampler": DistributedSampler(dataset, num_replicas=1, rank=0)}
    if settings.get("batch_sampler"):
        settings = {"batch_sampler": BatchSampler(ShardedSampler(dataset), batch_size=5, drop_last=False)}
    found = [key for batch in DataLoader(dataset, collate_fn=list, **settings) for key in batch]
    assert sorted(found) == list(dataset.keys)


def test_any_sized_source_will_do(dataset):
    part = Subset(dataset, range(5, 10))
    found = DataLoader(part, sampler=ShardedSampler(part), batch_size=None)
    assert sorted(found) == list(dataset.keys)[5:10]


@pytest.mark.parametrize("wrong", [{"seed": "1"}, {"shuffle": None}, {"even": 3}, {"rank": 0}, {"epoch": 1}])
def test_wrong_settings_are_refused(wrong):
    with pytest.raises((ConfigError, TypeError)):
        ShardedSampler(range(3), **wrong)
