"""Merging states: what is taken, and what is refused, since it would lose samples or repeat them."""

from __future__ import annotations

import pytest

from torchbucket import ConfigError, merge_states
from torchbucket.datasets.epochs.epoch import EpochPlan
from torchbucket.datasets.epochs.sharding import Rank, Shard
from torchbucket.datasets.epochs.state import EpochState
from torchbucket.datasets.tar.state import TarState

PLAN = EpochPlan(count=20, names="n")


def state(rank: int, world_size: int, consumed: int = 1, *, worker: int = 0, workers: int = 1, **fields):
    shard = Shard(rank=Rank(rank=rank, world_size=world_size), worker=worker, workers=workers)
    return EpochState(**{"plan": PLAN, "shard": shard, "consumed": consumed} | fields).to_dict()


def test_states_are_found_in_any_nesting():
    nested = {"rank0": {"_snapshot": [{"a": (state(0, 2, 3),)}], "other": b"bytes", "text": "text"}, "n": None}
    merged = merge_states([nested, [[state(1, 2, 4)]]])
    assert merged["stages"] == [[[3], [4]]]
    assert "rank" not in merged


def test_states_that_come_one_by_one_are_found():
    gathered = (iter([state(rank, 2, 3)]) for rank in range(2))
    assert merge_states({"ranks": gathered})["stages"] == [[[3], [3]]]


def test_a_state_of_shards_beside_one_of_objects_is_not_left_out_silently():
    shards = TarState(plan=EpochPlan(count=3, names="s")).to_dict()
    with pytest.raises(ConfigError, match="differ in plan"):
        merge_states([shards, state(0, 1)])


def test_the_same_state_twice_is_one():
    """torchdata keeps the state of a data set and of its iterator, which are the same."""
    assert merge_states([state(0, 1, 5), {"again": state(0, 1, 5)}])["stages"] == [[[5]]]


def test_ranks_may_have_different_numbers_of_workers():
    states = [state(0, 2, 5), state(1, 2, 1, worker=1, workers=2), state(1, 2, 2, worker=0, workers=2)]
    assert merge_states(states)["stages"] == [[[5], [2, 1]]]


def test_what_was_merged_merges_to_itself():
    merged = merge_states([state(0, 2), state(1, 2)])
    assert merge_states(merged) == merge_states([merged, merged]) == merged


def test_a_stage_that_consumed_nothing_is_none():
    assert merge_states(state(0, 1, 0))["stages"] == []


def test_when_all_is_consumed_the_next_epoch_begins():
    merged = merge_states([state(0, 2, 10, epoch=3), state(1, 2, 10, epoch=3)])
    assert (merged["epoch"], merged["stages"]) == (4, [])


def test_a_dropped_rest_does_not_keep_an_epoch_open():
    plan = EpochPlan(count=20, names="n", even="drop")
    states = [state(rank, 3, 6, plan=plan) for rank in range(3)]
    assert merge_states(states)["epoch"] == 1


@pytest.mark.parametrize(
    ("states", "message"),
    [
        ([], "found no state"),
        ({"loader": {"steps": 3}}, "found no state"),
        ([state(0, 2)], r"each of the 2 ranks; of rank 1 it got none.*all_gather_object"),
        ([state(0, 1, worker=1, workers=3)], "of rank 0 it got those of workers 1"),
        ([state(0, 2), state(1, 3)], "jobs with 2 and 3 ranks"),
        ([state(0, 1, 3), state(0, 1, 4)], "two states of rank 0 of 1, worker 0 of 1, which consumed 3 and 4"),
        ([state(0, 2), state(1, 2, epoch=1)], "differ in epoch: 0 and 1"),
        ([state(0, 2), state(1, 2, plan=EpochPlan(count=21, names="n"))], "differ in plan"),
        ([state(0, 2), state(1, 2, stages=(((1,),),))], "differ in stages"),
        ([state(0, 1), state(0, 1, shard=None, consumed=0)], "and one that was merged before"),
        ([state(0, 1, 21)], "consumed 21 objects of the 20 that it was dealt"),
    ],
)
def test_what_would_lose_or_repeat_samples_is_refused(states, message):
    with pytest.raises(ConfigError, match=message):
        merge_states(states)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"torchbucket_state": 2}, "has version 2, and this torchbucket reads version 1"),
        ({"count": "20"}, "damaged"),
        ({"count": None}, "damaged"),
        ({"epoch": -1}, "epoch must be"),
        ({"seed": "s"}, "seed must be"),
        ({"even": "half"}, "even must be"),
        ({"shuffle": 1}, "shuffle must be"),
        ({"stages": [[]]}, "without readers"),
        ({"stages": [[[]]]}, "without readers"),
        ({"stages": [[[-1]]]}, "damaged"),
        ({"stages": 3}, "damaged"),
        ({"rank": 1}, "rank"),
        ({"worker": 1}, "worker 1 of 1"),
        ({"consumed": 1.5}, "damaged"),
    ],
)
def test_a_damaged_state_is_refused(change, message):
    with pytest.raises(ConfigError, match=message):
        merge_states(state(0, 1) | change)


@pytest.mark.parametrize("missing", ["count", "names", "shuffle", "seed", "even", "epoch", "stages", "consumed"])
def test_a_state_with_a_hole_is_refused(missing):
    with pytest.raises(ConfigError, match=missing):
        merge_states({key: value for key, value in state(0, 1).items() if key != missing})


@pytest.mark.parametrize("other", [None, [], "text", {}, {"_num_yielded": 3}])
def test_what_is_no_state_is_told_apart(other):
    with pytest.raises(ConfigError, match="expected a state of a torchbucket data set or sampler"):
        EpochState.from_dict(other)


def loader_state(steps: int, *, last_worker: int = 0):
    """As torchdata 0.11 keeps it, of two workers that have 10 samples each and yielded 4 and 2 batches of 1."""
    snapshot = {
        "_last_yielded_worker_id": last_worker,
        "_worker_snapshots": {f"worker_{w}": state(0, 1, n, worker=w, workers=2) for w, n in enumerate((4, 2))},
    }
    return {"_snapshot": snapshot, "_steps_since_snapshot": steps, "_iterator_finished": False}


def test_batches_since_the_last_snapshot_count_as_consumed():
    assert merge_states(loader_state(0))["stages"] == [[[4, 2]]]
    assert merge_states(loader_state(3), batch_size=3)["stages"] == [[[7, 8]]]
    assert merge_states(loader_state(3, last_worker=1), batch_size=3)["stages"] == [[[10, 5]]]


def test_short_batches_that_loaders_drop_are_passed_over():
    """The first worker has two samples left of ten, too few for a batch of three; the second takes all turns."""
    state_dict = loader_state(3)
    state_dict["_snapshot"]["_worker_snapshots"]["worker_0"]["consumed"] = 8
    state_dict["_snapshot"]["_worker_snapshots"]["worker_1"]["consumed"] = 1
    assert merge_states(state_dict, batch_size=3, drop_last=True)["stages"] == [[[8, 10]]]


def test_batches_of_workers_that_all_yield_everything_are_not_counted_as_if_one_had_yielded_them():
    """With ``sharding=False`` each worker's state is that of the one reader there is, and all look the same."""
    state_dict = loader_state(2)
    state_dict["_snapshot"]["_worker_snapshots"] = {f"worker_{worker}": state(0, 1, 2) for worker in range(2)}
    with pytest.raises(ConfigError, match=r"loader of 2 workers yielded 2 batches.*sharding=False"):
        merge_states(state_dict, batch_size=1)


def test_without_the_batch_size_they_cannot_be_counted():
    with pytest.raises(ConfigError, match=r"yielded 3 batches since its last snapshot.*batch_size"):
        merge_states(loader_state(3))
