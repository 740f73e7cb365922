"""How far an epoch got, as a small plain dictionary: for one reader, and merged over all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from torchbucket.datasets.batches import consumed_after
from torchbucket.datasets.epoch import Epoch, EpochPlan, EpochShare, Stage
from torchbucket.datasets.order import check_epoch
from torchbucket.datasets.sharding import Rank, Shard, check_even
from torchbucket.errors import ConfigError

__all__ = ["EpochState", "StateDict", "merge_states", "state_after"]

StateDict = dict[str, Any]

_VERSION: Final = 1
_MARK: Final = "torchbucket_state"

# Where torchdata 0.11 keeps what it needs to replay the batches since a snapshot: StatefulDataLoader.state_dict().
_SNAPSHOT, _STEPS_SINCE, _LAST_WORKER = "_snapshot", "_steps_since_snapshot", "_last_yielded_worker_id"


@dataclass(frozen=True, kw_only=True, slots=True)
class EpochState:
    """How far an epoch got: the stages that are over, and what one reader consumed of the stage that is not.

    Args:
        plan: which data set, in which order.
        epoch: the epoch's number.
        stages: deals that are over; see ``Epoch``.
        shard: the reader whose state this is; None where it is of no one reader: any ranks and workers may go on.
        consumed: how many samples of its share that reader consumed.
    """

    plan: EpochPlan
    epoch: int = 0
    stages: tuple[Stage, ...] = ()
    shard: Shard | None = None
    consumed: int = 0

    def opened(self) -> Epoch:
        """The epoch with what is left after the stages; raise ``ConfigError`` where they contradict the plan."""
        return Epoch(self.plan, self.epoch, self.stages)

    def share(self, shard: Shard) -> EpochShare:
        """What a reader gets of the epoch.

        Raises:
            ConfigError: this is the state of another reader, or it consumed more than there is.
        """
        if self.shard is not None and self.shard != shard:
            raise ConfigError(
                f"this state is of {self.shard}, and cannot be taken up by {shard}. To go on with other ranks or "
                "workers, gather the states of all ranks and give them to torchbucket.merge_states; the data set or "
                "sampler loads what it returns, before the loader is made"
            )
        share = self.opened().share(shard)
        if not 0 <= self.consumed <= len(share):
            raise ConfigError(
                f"the state says that {shard} consumed {self.consumed} of {len(share)} samples: it is damaged, or of "
                "another data set"
            )
        return share

    def to_dict(self) -> StateDict:
        """The state as numbers, texts and lists, for ``torch.save`` and JSON alike."""
        plan = self.plan
        state: StateDict = {
            _MARK: _VERSION,
            "count": plan.count,
            "names": plan.names,
            "shuffle": plan.shuffle,
            "seed": plan.seed,
            "even": plan.even,
            "epoch": self.epoch,
            "stages": [[list(workers) for workers in stage] for stage in self.stages],
        }
        if self.shard is not None:
            state |= {
                "rank": self.shard.rank.rank,
                "world_size": self.shard.rank.world_size,
                "worker": self.shard.worker,
                "workers": self.shard.workers,
                "consumed": self.consumed,
            }
        return state

    @classmethod
    def from_dict(cls, state: Mapping[str, Any], plan: EpochPlan | None = None) -> Self:
        """Take a state that ``to_dict`` made; check it against the plan of the data set that loads it.

        Raises:
            ConfigError: it is no state, of another version, damaged, or of another data set, order or split.
        """
        if not isinstance(state, Mapping) or _MARK not in state:
            raise ConfigError(
                "expected a state of a torchbucket data set or sampler; got "
                f"{'a dictionary without ' + repr(_MARK) if isinstance(state, Mapping) else type(state).__name__}. "
                "A StatefulDataLoader loads its own states; torchbucket.merge_states takes them too"
            )
        if state[_MARK] != _VERSION:
            raise ConfigError(
                f"the state has version {state[_MARK]!r}, and this torchbucket reads version {_VERSION}: load it with "
                "the torchbucket that made it"
            )
        try:
            made = cls._read(state)
        except (KeyError, TypeError, ValueError) as error:
            raise ConfigError(f"the state is damaged: {type(error).__name__}: {error}") from error
        if plan is not None:
            made._check(plan)
        return made

    @classmethod
    def _read(cls, state: Mapping[str, Any]) -> Self:
        number = _whole_number
        plan = EpochPlan(
            count=number(state["count"]),
            names=str(state["names"]),
            shuffle=state["shuffle"],
            seed=state["seed"],
            even=check_even(state["even"]),
        )
        check_epoch(state["epoch"])
        stages = tuple(
            tuple(tuple(number(consumed) for consumed in workers) for workers in stage) for stage in state["stages"]
        )
        if any(not stage or not all(stage) for stage in stages):
            raise ValueError("a stage without readers")
        shard = None
        if "rank" in state:
            rank = Rank(rank=number(state["rank"]), world_size=number(state["world_size"]))
            shard = Shard(rank=rank, worker=number(state["worker"]), workers=number(state["workers"]))
            if shard.worker >= shard.workers:
                raise ValueError(f"worker {shard.worker} of {shard.workers}")
        consumed = number(state["consumed"]) if shard else 0
        return cls(plan=plan, epoch=state["epoch"], stages=stages, shard=shard, consumed=consumed)

    def _check(self, plan: EpochPlan) -> None:
        mine = self.plan
        if (mine.count, mine.names) != (plan.count, plan.names):
            raise ConfigError(
                f"the state is of another data set: it has {mine.count} objects, this one {plan.count}, and the names' "
                f"digests are {mine.names} and {plan.names}. What is under a prefix may have changed since: a manifest "
                "keeps a data set as it was (from_manifest)"
            )
        for setting in ("shuffle", "seed", "even"):
            then, now = getattr(mine, setting), getattr(plan, setting)
            if then != now:
                raise ConfigError(
                    f"the state was made with {setting}={then!r}, and this data set or sampler has {setting}={now!r}: "
                    "what is left of the epoch would be other objects. Construct it as it was"
                )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Batches:
    size: int | None
    drop_last: bool


def merge_states(states: object, *, batch_size: int | None = None, drop_last: bool = False) -> StateDict:
    """Join the states of all ranks and workers into one that any number of ranks and workers can go on from.

    The data set or the sampler loads the result (``load_state_dict``) before its loader is made. What no reader
    consumed is left, each object once; how it is dealt out depends on who is there then. When all is consumed the
    result is the beginning of the next epoch.

    Args:
        states: ``state_dict()`` of the loaders, data sets or samplers of all ranks, in any order and any nesting of
            lists and dictionaries: those of torchdata's ``StatefulDataLoader`` are searched for what they hold.
        batch_size: the loaders'; needed where ``snapshot_every_n_steps`` is more than 1, since a loader then notes how
            many batches it yielded since its last snapshot.
        drop_last: the loaders'; for the same reason.

    Raises:
        ConfigError: no state is there, one of a rank or worker is missing, or they are of different data sets, epochs
            or beginnings.
    """
    from torchbucket.datasets.tar.state import merge_tar_states, tar_states_in  # it imports this module

    states = list(states) if isinstance(states, Iterator) else states
    if shards := list(tar_states_in(states)):
        return merge_tar_states(shards)
    found = list(_found(states, _Batches(size=batch_size, drop_last=drop_last)))
    if not found:
        raise ConfigError(
            "merge_states found no state of a torchbucket data set or sampler; give it the state_dict() of every "
            "rank's StatefulDataLoader, data set or sampler"
        )
    first = found[0]
    for state in found:
        for what in ("plan", "epoch", "stages"):
            if getattr(state, what) != getattr(first, what):
                raise ConfigError(
                    f"merge_states got states that differ in {what}: {getattr(first, what)!r} and "
                    f"{getattr(state, what)!r}. Merge the states of one data set, taken by all ranks at one step"
                )
    stage = _stage(found)
    return (first if stage is None else _after(first, stage)).to_dict()


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


def _after(state: EpochState, stage: Stage) -> EpochState:
    """Where all readers together are when the stage is over: in the next epoch, if nothing of this one is left."""
    epoch = state.opened()
    whole = replace(state, shard=None, consumed=0)
    if all(consumed == len(share) for share, consumed in epoch.readers(stage)):
        return replace(whole, epoch=whole.epoch + 1, stages=())
    if any(any(workers) for workers in stage):
        whole = replace(whole, stages=(*whole.stages, stage))
        whole.opened()  # refuses a stage that consumed more than it was dealt
    return whole


def _stage(states: list[EpochState]) -> Stage | None:
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


def _found(states: object, batches: _Batches) -> Iterator[EpochState]:
    """The states inside any nesting; what a loader yielded since its snapshot is counted as consumed."""
    if isinstance(states, Mapping):
        if _MARK in states:
            yield EpochState.from_dict(states)
            return
        inner = [state for value in states.values() for state in _found(value, batches)]
        steps = states.get(_STEPS_SINCE, 0)
        yield from _advanced(inner, steps, states[_SNAPSHOT], batches) if steps and inner else inner
    elif isinstance(states, Iterable) and not isinstance(states, str | bytes):
        for value in states:
            yield from _found(value, batches)


def _advanced(states: list[EpochState], steps: int, snapshot: Mapping[str, Any], batches: _Batches) -> list[EpochState]:
    if batches.size is None:
        raise ConfigError(
            f"a loader yielded {steps} batches since its last snapshot (snapshot_every_n_steps is more than 1), and "
            "its state does not say how long they were: give merge_states the loader's batch_size"
        )
    by_worker = {state.shard.worker: state for state in states if state.shard is not None}
    ordered = [by_worker[worker] for worker in sorted(by_worker)]
    shares = [len(state.opened().share(state.shard)) for state in ordered if state.shard is not None]
    consumed = consumed_after(
        shares,
        steps,
        batches.size,
        drop_last=batches.drop_last,
        consumed=[state.consumed for state in ordered],
        first=(snapshot[_LAST_WORKER] + 1) % len(ordered),
    )
    return [replace(state, consumed=count) for state, count in zip(ordered, consumed, strict=True)]


def _whole_number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"expected a whole number from 0; got {value!r}")
    return value
