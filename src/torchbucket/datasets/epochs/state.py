"""How far an epoch got, as a small plain dictionary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Self

from torchbucket.datasets.epochs.epoch import Epoch, EpochPlan, EpochShare, Stage
from torchbucket.datasets.epochs.order import check_epoch
from torchbucket.datasets.epochs.sharding import Rank, Shard, check_even
from torchbucket.errors import ConfigError

__all__ = ["EpochState", "StateDict", "check_mark", "whole_number"]

StateDict = dict[str, Any]

_VERSION: Final = 1


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

    MARK: ClassVar[str] = "torchbucket_state"  # the key by which a dictionary is known as a state

    plan: EpochPlan
    epoch: int = 0
    stages: tuple[Stage, ...] = ()
    shard: Shard | None = None
    consumed: int = 0

    def is_finished(self) -> bool:
        """Whether the reader whose state this is has consumed its share."""
        return self.shard is not None and self.consumed == len(self.share(self.shard))

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
            EpochState.MARK: _VERSION,
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
        check_mark(state, cls.MARK, _VERSION, "a torchbucket data set or sampler")
        try:
            made = cls._read(state)
        except (KeyError, TypeError, ValueError) as error:
            raise ConfigError(f"the state is damaged: {type(error).__name__}: {error}") from error
        if plan is not None:
            made._check(plan)
        return made

    @classmethod
    def _read(cls, state: Mapping[str, Any]) -> Self:
        number = whole_number
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


def check_mark(state: object, mark: str, version: int, owner: str) -> None:
    """Raise ``ConfigError`` unless a dictionary has the mark of a state, and a version that is known."""
    if not isinstance(state, Mapping) or mark not in state:
        raise ConfigError(
            f"expected a state of {owner}; got "
            f"{'a dictionary without ' + repr(mark) if isinstance(state, Mapping) else type(state).__name__}. "
            "A StatefulDataLoader loads its own states; torchbucket.merge_states takes them too"
        )
    if state[mark] != version:
        raise ConfigError(
            f"the state has version {state[mark]!r}, and this torchbucket reads version {version}: load it with the "
            "torchbucket that made it"
        )


def whole_number(value: object) -> int:
    """A number of a state; raise ``ValueError`` where it is none."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"expected a whole number from 0; got {value!r}")
    return value
