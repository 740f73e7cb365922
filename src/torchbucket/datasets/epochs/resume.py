"""The states of all readers of whole objects, merged into one that any number of them goes on from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from torchbucket.datasets.epochs.batches import consumed_after
from torchbucket.datasets.epochs.epoch import Stage
from torchbucket.datasets.epochs.sharding import Rank, Shard
from torchbucket.datasets.epochs.state import EpochState, StateDict
from torchbucket.errors import ConfigError

__all__ = ["advanced", "merge_epoch_states", "stage_of", "state_after"]

S = TypeVar("S", bound=EpochState)


def merge_epoch_states(states: Sequence[S]) -> S:
    """Join the states of all readers of whole objects; see ``torchbucket.merge_states``."""
    first = states[0]
    for state in states:
        for what in ("plan", "epoch", "stages"):
            if getattr(state, what) != getattr(first, what):
                raise ConfigError(
                    f"merge_states got states that differ in {what}: {getattr(first, what)!r} and "
                    f"{getattr(state, what)!r}. Merge the states of one data set, taken by all ranks at one step"
                )
    stage = stage_of(states)
    return first if stage is None else _after(first, stage)


def state_after(
    state: EpochState, *, world_size: int, workers: int, batches: int, batch_size: int | None, drop_last: bool = False
) -> StateDict:
    """The state after every rank's loader has yielded some batches, for any ranks and workers to go on from.

    Args:
        state: where the loaders began.
        world_size: how many ranks there are.
        workers: how many workers each loader has; 0 is as good as one.
        batches: how many each has yielded.
        batch_size: samples in a batch; None where the loaders yield samples.
        drop_last: a worker's last batch is left out where it is shorter.

    Raises:
        ConfigError: a number is out of range, or there are not so many batches.
    """
    if world_size < 1 or workers < 0:
        raise ConfigError(
            f"there is at least one rank, and no rank has fewer than 0 workers; got world_size={world_size}, "
            f"num_workers={workers}"
        )
    if state.shard is not None and (world_size, workers) not in ((1, 0), (1, 1)):
        raise ConfigError(
            f"the loaders went on from the state of {state.shard} alone, and what the others consumed is not known "
            "here: load a state of all (torchbucket.merge_states), or take the state of torchdata's StatefulDataLoader"
        )
    epoch = state.opened()
    stage = []
    for rank in range(world_size):
        place = Rank(rank=rank, world_size=world_size)
        shards = [Shard(rank=place, worker=worker, workers=workers or 1) for worker in range(workers or 1)]
        before = [state.consumed if shard == state.shard else 0 for shard in shards]
        shares = [len(epoch.share(shard)) for shard in shards]
        counts = consumed_after(shares, batches, batch_size, drop_last=drop_last, consumed=before)
        stage.append(tuple(counts))
    return _after(state, tuple(stage)).to_dict()


def _after(state: S, stage: Stage) -> S:
    """Where all readers together are when the stage is over: in the next epoch, if nothing of this one is left."""
    epoch = state.opened()
    whole = replace(state, shard=None, consumed=0)
    if all(consumed == len(share) for share, consumed in epoch.readers(stage)):
        return replace(whole, epoch=whole.epoch + 1, stages=())
    if any(any(workers) for workers in stage):
        whole = replace(whole, stages=(*whole.stages, stage))
        whole.opened()  # refuses a stage that consumed more than it was dealt
    return whole


def stage_of(states: Sequence[EpochState]) -> Stage | None:
    """What each reader consumed; None where the states are of no readers."""
    consumed: dict[Shard, int] = {}
    for state in states:
        if state.shard is None:
            continue
        if consumed.setdefault(state.shard, state.consumed) != state.consumed:
            raise ConfigError(
                f"merge_states got two states of {state.shard}, which consumed {consumed[state.shard]} and "
                f"{state.consumed} samples. Give it one state of each rank, all of one step"
            )
    if not consumed:
        return None
    if any(state.shard is None for state in states):
        raise ConfigError("merge_states got states of readers and one that was merged before; give it either")
    sizes = {shard.rank.world_size for shard in consumed}
    if len(sizes) > 1:
        raise ConfigError(f"merge_states got states of jobs with {' and '.join(map(str, sorted(sizes)))} ranks")
    stage = []
    (world_size,) = sizes
    for rank in range(world_size):
        of_rank = {shard.worker: count for shard, count in consumed.items() if shard.rank.rank == rank}
        workers = {shard.workers for shard in consumed if shard.rank.rank == rank}
        if len(workers) != 1 or sorted(of_rank) != list(range(*workers)):
            of_workers = "those of workers " + ", ".join(map(str, sorted(of_rank)))
            raise ConfigError(
                f"merge_states needs a state of each worker of each of the {world_size} ranks; of rank {rank} it got "
                f"{of_workers if of_rank else 'none'}. Gather them with "
                "torch.distributed.all_gather_object, or save one file a rank and read them all"
            )
        stage.append(tuple(of_rank[worker] for worker in range(*workers)))
    return tuple(stage)


def advanced(
    states: Sequence[EpochState], batches: int, *, batch_size: int, drop_last: bool, last_worker: int
) -> list[EpochState]:
    """The states of a loader's workers after more batches, the last one before them having been ``last_worker``'s."""
    by_worker = {state.shard.worker: state for state in states if state.shard is not None}
    ordered = [by_worker[worker] for worker in sorted(by_worker)]
    shares = [len(state.opened().share(state.shard)) for state in ordered if state.shard is not None]
    consumed = consumed_after(
        shares,
        batches,
        batch_size,
        drop_last=drop_last,
        consumed=[state.consumed for state in ordered],
        first=(last_worker + 1) % len(ordered),
    )
    return [replace(state, consumed=count) for state, count in zip(ordered, consumed, strict=True)]
