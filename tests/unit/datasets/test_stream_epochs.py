"""Streams by epochs: shuffled, evenly split, advancing by themselves, and resumed in the same process."""

from __future__ import annotations

import copy
import json
import pickle

import pytest
from torch.utils.data import DataLoader

from torchbucket import ConfigError, IterableDataset, merge_states

COUNT = 23


@pytest.fixture
def make(scripted):
    scripted({f"k{index:02}": b"" for index in range(COUNT)})

    def dataset(**settings):
        return IterableDataset.from_prefix("memory://scripted/", transform=number_of, **settings)

    return dataset


def number_of(reader) -> int:
    return int(reader.key[1:])


def shares(make, world_size: int, **settings) -> list[list[int]]:
    return [list(make(rank=rank, world_size=world_size, **settings)) for rank in range(world_size)]


def test_a_shuffled_epoch_has_each_object_once_in_an_order_of_its_own(make):
    dataset = make(shuffle=True, seed=4)
    first, second = list(dataset), list(dataset)
    assert sorted(first) == sorted(second) == list(range(COUNT))
    assert first != second
    assert first != sorted(first)
    assert list(make(shuffle=True, seed=4)) == first
    assert list(make(shuffle=True, seed=5)) != first


def test_ranks_share_one_shuffled_order(make):
    whole = list(make(shuffle=True))
    assert shares(make, 3, shuffle=True) == [whole[rank::3] for rank in range(3)]


def test_an_even_split_repeats_or_drops_a_few(make):
    padded = shares(make, 4, even=True)
    assert [len(share) for share in padded] == [6] * 4
    assert set().union(*padded) == set(range(COUNT))
    assert padded == shares(make, 4, even="pad")
    dropped = shares(make, 4, even="drop")
    assert [len(share) for share in dropped] == [5] * 4
    assert len(set().union(*dropped)) == 20


def test_more_readers_than_objects_still_get_equal_numbers(make):
    assert [len(share) for share in shares(make, 50, even=True)] == [1] * 50
    assert [len(share) for share in shares(make, 24, even="drop")] == [0] * 24


def test_an_epoch_named_is_the_next_pass(make):
    dataset = make(shuffle=True)
    orders = [list(dataset) for _ in range(3)]
    dataset.set_epoch(1)
    assert dataset.epoch == 1
    assert list(dataset) == orders[1]
    assert dataset.epoch == 2
    assert list(dataset) == orders[2]


def test_a_pass_left_early_is_begun_anew(make):
    dataset = make(shuffle=True)
    iterator = iter(dataset)
    left = [next(iterator) for _ in range(5)]
    assert list(dataset)[:5] == left
    assert dataset.epoch == 1


def test_a_pass_that_began_earlier_does_not_turn_the_clock_back(make):
    dataset = make(shuffle=True)
    early = iter(dataset)
    next(early)
    list(dataset)
    list(dataset)
    list(early)
    assert dataset.epoch == 2


@pytest.mark.parametrize("consumed", [0, 1, 7, COUNT - 1])
@pytest.mark.parametrize("of", ["iterator", "data set"])
def test_a_new_process_resumes_at_the_next_sample(make, consumed, of):
    dataset = make(shuffle=True)
    orders = [list(dataset) for _ in range(3)]
    dataset.set_epoch(1)
    iterator = iter(dataset)
    assert [next(iterator) for _ in range(consumed)] == orders[1][:consumed]
    state = json.loads(json.dumps((iterator if of == "iterator" else dataset).state_dict()))
    assert len(json.dumps(state)) < 400
    resumed = make(shuffle=True)
    resumed.load_state_dict(state)
    assert resumed.state_dict() == state or consumed == 0
    assert list(resumed) == orders[1][consumed:]
    assert list(resumed) == orders[2]


def test_an_iterator_loads_a_state_itself(make):
    iterator = iter(make(shuffle=True))
    for _ in range(9):
        next(iterator)
    other = iter(make(shuffle=True))
    next(other)
    other.load_state_dict(iterator.state_dict())
    assert list(other) == list(iterator)


def test_a_finished_epoch_resumes_with_the_next_one(make):
    dataset = make(shuffle=True)
    list(dataset)
    state = dataset.state_dict()
    second = list(dataset)
    resumed = make(shuffle=True)
    resumed.load_state_dict(state)
    assert resumed.epoch == 1
    assert list(resumed) == second


def test_the_rest_comes_once(make):
    """The epoch after the resumed one is whole, also where its number is named; an early break repeats the rest."""
    dataset = make()
    iterator = iter(dataset)
    for _ in range(10):
        next(iterator)
    resumed = make()
    resumed.load_state_dict(iterator.state_dict())
    resumed.set_epoch(0)  # as loops do that name every epoch
    rest = list(range(10, COUNT))
    assert next(iter(resumed)) == 10
    assert list(resumed) == rest
    resumed.set_epoch(0)
    assert list(resumed) == list(range(COUNT))


def test_another_epoch_s_name_lets_the_state_go(make):
    iterator = iter(make())
    next(iterator)
    resumed = make()
    resumed.load_state_dict(iterator.state_dict())
    resumed.set_epoch(3)
    assert list(resumed) == list(range(COUNT))


def test_states_of_two_ranks_go_on_as_three(make):
    states, seen = [], []
    for rank, consumed in enumerate((4, 7)):
        iterator = iter(make(shuffle=True, rank=rank, world_size=2))
        seen += [next(iterator) for _ in range(consumed)]
        states.append(iterator.state_dict())
    merged = merge_states(states)
    for rank in range(3):
        dataset = make(shuffle=True, rank=rank, world_size=3)
        dataset.load_state_dict(merged)
        seen += list(dataset)
    assert sorted(seen) == list(range(COUNT))


def test_a_state_of_another_rank_is_refused_with_the_remedy(make):
    state = iter(make(rank=0, world_size=2)).state_dict()
    dataset = make(rank=0, world_size=3)
    dataset.load_state_dict(state)
    with pytest.raises(ConfigError, match=r"rank 0 of 2, worker 0 of 1, .* by rank 0 of 3.*torchbucket\.merge_states"):
        iter(dataset)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"shuffle": True}, r"made with shuffle=False, and this data set or sampler has shuffle=True"),
        ({"seed": 1}, "seed=0"),
        ({"even": True}, "even=None"),
        ({"select": lambda info: info.key != "k03"}, r"it has 23 objects, this one 22.*manifest"),
    ],
)
def test_a_state_of_another_data_set_is_refused(make, settings, message):
    state = make().state_dict()
    with pytest.raises(ConfigError, match=message):
        make(**settings).load_state_dict(state)


def test_a_renamed_object_is_another_data_set(make, scripted):
    state = make().state_dict()
    scripted({f"k{index:02}": b"" for index in range(1, COUNT + 1)})
    with pytest.raises(ConfigError, match="digests"):
        IterableDataset.from_prefix("memory://scripted/").load_state_dict(state)


def test_the_state_after_batches_of_a_plain_loader(make):
    dataset = make(shuffle=True)
    loader = DataLoader(dataset, batch_size=4, collate_fn=list)
    batches = iter(loader)
    seen = [number for _ in range(3) for number in next(batches)]
    state = dataset.state_after(epoch=0, batches=3, batch_size=4, num_workers=0)
    resumed = make(shuffle=True)
    resumed.load_state_dict(state)
    rest = list(resumed)
    assert seen + rest == list(make(shuffle=True))
    # Counted from where the resumed pass began.
    again = make(shuffle=True)
    again.load_state_dict(state)
    again.load_state_dict(again.state_after(epoch=0, batches=1, batch_size=4, num_workers=0))
    assert list(again) == rest[4:]


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ({"batches": 7}, "the epoch has 6 batches of 4 left; got batches=7"),
        ({"batches": -1}, "batches at least 0"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
        ({"num_workers": -1}, "num_workers=-1"),
        ({"epoch": -1}, "epoch must be a whole number"),
        ({"world_size": 0}, "at least one rank"),
    ],
)
def test_batches_that_there_are_not_are_refused(make, numbers, message):
    with pytest.raises(ConfigError, match=message):
        make().state_after(**{"epoch": 0, "batches": 1, "batch_size": 4, "num_workers": 0} | numbers)


def test_a_failure_is_no_end(make):
    """Whoever asks on after an error gets another error, not what looks like the end of the epoch."""
    dataset = make()
    dataset._transform = refuse_the_third
    iterator = iter(dataset)
    assert [next(iterator), next(iterator)] == [0, 1]
    with pytest.raises(ValueError, match="no label"):
        next(iterator)
    assert iterator.state_dict()["consumed"] == 2
    with pytest.raises(RuntimeError, match="failed before"):
        next(iterator)
    assert dataset.epoch == 0


def refuse_the_third(reader) -> int:
    if number_of(reader) == 2:
        raise ValueError("no label")
    return number_of(reader)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda dataset: pickle.loads(pickle.dumps(dataset))])
def test_a_copy_has_an_epoch_of_its_own(make, copied):
    dataset = make(shuffle=True)
    list(dataset)
    other = copied(dataset)
    assert other.epoch == 1
    other.set_epoch(7)
    assert dataset.epoch == 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"shuffle": 1}, "shuffle must be True or False"),
        ({"seed": None}, "seed must be a whole number"),
        ({"even": "both"}, "even must be True, False, 'pad' or 'drop'"),
    ],
)
def test_wrong_settings_are_refused_before_a_request(scripted, settings, message):
    store = scripted({"k": b""})
    store.list = store.submit_list_page = None
    with pytest.raises(ConfigError, match=message):
        IterableDataset.from_prefix("memory://scripted/", **settings)


def test_an_unknown_setting_is_a_mistake_that_is_named(make):
    with pytest.raises(TypeError, match="prefetch"):
        make(prefetch=3)


@pytest.mark.parametrize("epoch", [-1, 1.0, None])
def test_an_epoch_is_a_number(make, epoch):
    with pytest.raises(ConfigError, match="epoch must be a whole number"):
        make().set_epoch(epoch)
