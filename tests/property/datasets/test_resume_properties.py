"""An epoch that goes on any number of times, with any ranks and workers, delivers exactly what is left."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass

from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from torchbucket import merge_states
from torchbucket.datasets.epochs.epoch import EpochPlan
from torchbucket.datasets.epochs.resume import state_after
from torchbucket.datasets.epochs.sharding import Rank, Shard
from torchbucket.datasets.epochs.state import EpochState


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run of a job: its workers by rank, and how far each got, as a share of its share."""

    workers: tuple[int, ...]
    progress: tuple[float, ...]

    def shards(self) -> list[Shard]:
        return [
            Shard(rank=Rank(rank=rank, world_size=len(self.workers)), worker=worker, workers=workers)
            for rank, workers in enumerate(self.workers)
            for worker in range(workers)
        ]


@st.composite
def runs(draw, *, alike: bool) -> Run:
    world_size = draw(st.integers(1, 4))
    counts = st.integers(1, 4)
    workers = (draw(counts),) * world_size if alike else tuple(draw(counts) for _ in range(world_size))
    readers = sum(workers)
    return Run(workers=workers, progress=tuple(draw(st.sampled_from((0, 0.1, 0.5, 0.9, 1))) for _ in range(readers)))


def consume(state: EpochState, run: Run) -> tuple[list[int], EpochState]:
    """What the run's readers yield, and where they are then, through JSON and a merge."""
    seen, states = [], []
    for shard, progress in zip(run.shards(), run.progress, strict=True):
        share = state.share(shard)
        positions = list(share.positions())
        assert len(positions) == len(share)
        consumed = round(progress * len(share))
        assert list(share.positions(consumed)) == positions[consumed:]
        seen += positions[:consumed]
        part = EpochState(plan=state.plan, epoch=state.epoch, stages=state.stages, shard=shard, consumed=consumed)
        states.append(part.to_dict())
    merged = merge_states(json.loads(json.dumps(states[::-1])))
    return seen, EpochState.from_dict(merged, state.plan)


ALONE = Shard(rank=Rank(rank=0, world_size=1))
plans = st.builds(
    EpochPlan, count=st.integers(0, 150), names=st.just("n"), shuffle=st.booleans(), seed=st.integers(0, 99)
)


@settings(max_examples=examples(60))
@given(plan=plans, epoch=st.integers(0, 3), jobs=st.lists(runs(alike=False), min_size=1, max_size=5))
def test_each_object_once_over_all_runs_of_an_epoch(plan, epoch, jobs):
    state = EpochState(plan=plan, epoch=epoch)
    seen: list[int] = []
    for job in jobs:
        yielded, state = consume(state, job)
        seen += yielded
        if state.epoch != epoch:
            break
    if state.epoch == epoch:
        seen += state.share(ALONE).positions()
    assert sorted(seen) == list(range(plan.count))
    assert state.epoch == epoch or state.stages == ()


@settings(max_examples=examples(40))
@given(plan=plans, jobs=st.lists(runs(alike=True), min_size=1, max_size=4), even=st.sampled_from(("pad", "drop")))
def test_an_even_split_stays_even_and_repeats_or_drops_less_than_one_round(plan, jobs, even):
    plan = EpochPlan(count=plan.count, names="n", shuffle=plan.shuffle, seed=plan.seed, even=even)
    state = EpochState(plan=plan)
    for job in jobs:
        shares = [state.share(shard) for shard in job.shards()]
        dealt = Counter(position for share in shares for position in share.positions())
        left = set(state.share(ALONE).positions())
        assert len({len(share) for share in shares}) == 1
        assert set(dealt) <= left
        assert abs(dealt.total() - len(left)) < len(shares)
        if even == "pad":
            assert set(dealt) == left
            assert not left or max(dealt.values()) - min(dealt.values()) <= 1
        else:
            assert set(dealt.values()) <= {1}
        _, state = consume(state, job)
        if state.epoch:
            break


@settings(max_examples=examples(40))
@given(plan=plans, job=runs(alike=False))
def test_what_is_left_keeps_the_epoch_s_order(plan, job):
    state = EpochState(plan=plan)
    whole = list(state.share(ALONE).positions())
    seen, after = consume(state, job)
    if after.epoch == 0:
        gone = set(seen)
        assert list(after.share(ALONE).positions()) == [position for position in whole if position not in gone]


@settings(max_examples=examples(40))
@given(
    plan=plans, world_size=st.integers(1, 3), workers=st.integers(0, 4), size=st.integers(1, 9), rounds=st.floats(0, 1)
)
def test_the_state_after_batches_is_what_a_loader_yields(plan, world_size, workers, size, rounds):
    """A loader is played by taking a batch from each worker in turn that has one."""
    state = EpochState(plan=plan)
    batches, taken = {}, []
    for rank in range(world_size):
        place = Rank(rank=rank, world_size=world_size)
        shares = [
            list(state.share(Shard(rank=place, worker=worker, workers=workers or 1)).positions())
            for worker in range(workers or 1)
        ]
        cut = [[share[at : at + size] for at in range(0, len(share), size)] for share in shares]
        batches[rank] = [
            share[turn] for turn in range(max(map(len, cut), default=0)) for share in cut if turn < len(share)
        ]
    count = int(rounds * min(map(len, batches.values())))
    taken = [position for rank in batches.values() for batch in rank[:count] for position in batch]
    after = EpochState.from_dict(
        state_after(state, world_size=world_size, workers=workers, batches=count, batch_size=size), plan
    )
    left = list(after.share(ALONE).positions()) if after.epoch == 0 else []
    assert sorted(taken + left) == list(range(plan.count))
