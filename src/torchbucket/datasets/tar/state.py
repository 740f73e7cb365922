"""How far an epoch over shards got: which of them were begun, and what of those is left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Self

from torchbucket.datasets.epochs.epoch import EpochPlan, EpochShare
from torchbucket.datasets.epochs.resume import merge_epoch_states, stage_of
from torchbucket.datasets.epochs.sharding import Shard
from torchbucket.datasets.epochs.state import EpochState, StateDict, check_mark, whole_number
from torchbucket.datasets.tar.sample import Place
from torchbucket.errors import ConfigError

__all__ = ["TarState", "merge_tar_states"]

_VERSION: Final = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class TarState(EpochState):
    """How far an epoch got, for one reader or, merged, for all; ``consumed`` are the shards that the reader began.

    Args:
        rest: what is left of the shards that were begun, in the order in which it is read.
        buffer: the samples in the reader's shuffle buffer, slot by slot.
        draws: how often the reader drew from that buffer.
    """

    MARK: ClassVar[str] = "torchbucket_tar_state"

    rest: tuple[Place, ...] = ()
    buffer: tuple[Place, ...] = ()
    draws: int = 0

    def of_reader(self, shard: Shard) -> tuple[EpochShare, Self]:
        """One reader's shards, and its own state: what of the rest falls to it, if the state is of no one reader.

        Raises:
            ConfigError: this is the state of another reader.
        """
        share = self.share(shard)
        if self.shard is not None:
            return share, self
        return share, replace(self, shard=shard, rest=tuple(self.rest[place] for place in shard.places(len(self.rest))))

    def is_finished(self) -> bool:
        """Whether the reader has yielded all that falls to it."""
        return not self.rest and not self.buffer and EpochState.is_finished(self)

    def to_dict(self) -> StateDict:
        """The state as numbers, texts and lists, for ``torch.save`` and JSON alike."""
        versions = {place.shard: place.version for place in (*self.rest, *self.buffer) if place.version is not None}
        return {
            self.MARK: _VERSION,
            "shards": EpochState.to_dict(self),
            "rest": [[place.shard, place.start, place.stop] for place in self.rest],
            "buffer": [[place.shard, place.start, place.stop] for place in self.buffer],
            "versions": [[shard, version] for shard, version in sorted(versions.items())],
            "draws": self.draws,
        }

    @classmethod
    def from_dict(cls, state: Mapping[str, Any], plan: EpochPlan | None = None) -> Self:
        """Take a state that ``to_dict`` made; check it against the plan of the data set that loads it.

        Raises:
            ConfigError: it is no state of a tar data set, of another version, damaged, or of another data set.
        """
        check_mark(state, cls.MARK, _VERSION, "a TarDataset")
        try:
            shards = EpochState.from_dict(state["shards"], plan)
            versions = {shard: str(version) for shard, version in state["versions"]}
            made = cls(
                plan=shards.plan,
                epoch=shards.epoch,
                stages=shards.stages,
                shard=shards.shard,
                consumed=shards.consumed,
                rest=tuple(_place(place, versions, shards.plan.count) for place in state["rest"]),
                buffer=tuple(_place(place, versions, shards.plan.count) for place in state["buffer"]),
                draws=whole_number(state["draws"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, ConfigError):
                raise
            raise ConfigError(f"the state is damaged: {type(error).__name__}: {error}") from error
        if any(place.stop is None for place in made.buffer):
            raise ConfigError("the state is damaged: a sample in the buffer has no end")
        return made


def merge_tar_states(states: Sequence[TarState]) -> TarState:
    """Join the states of all ranks and workers into one that any number of ranks and workers can go on from.

    Shards that nobody began are dealt out anew. What is left of the others, and the samples in the shuffle buffers, is
    dealt out piece by piece.

    Raises:
        ConfigError: a rank's or worker's is missing, or they are of different data sets, epochs or beginnings.
    """
    merged = merge_epoch_states(states)
    first = states[0]
    by_reader: dict[Shard, TarState] = {}
    for state in states:
        if state.shard is None:
            if state != first:
                raise ConfigError("merge_states got states that were merged before, and differ; give it one of them")
        elif by_reader.setdefault(state.shard, state) != state:
            raise ConfigError(f"merge_states got two states of {state.shard} that differ; give it those of one step")
    if not by_reader:
        return first
    ordered = sorted(by_reader, key=lambda shard: (shard.rank.rank, shard.worker))
    rest = [place for shard in ordered for place in (*by_reader[shard].rest, *by_reader[shard].buffer)]
    if merged.epoch != first.epoch and rest:
        # All shards were begun, so none is left to deal, but the epoch is not over.
        stage = stage_of(states)
        assert stage is not None  # they are of readers
        merged = replace(first, shard=None, consumed=0, stages=(*first.stages, stage))
    return replace(merged, rest=tuple(rest), buffer=(), draws=0)


def _place(place: object, versions: dict[int, str], shards: int) -> Place:
    if not isinstance(place, list | tuple) or len(place) != 3:
        raise ValueError(f"expected a shard, a start and a stop; got {place!r}")
    shard, start = whole_number(place[0]), whole_number(place[1])
    stop = None if place[2] is None else whole_number(place[2])
    if shard >= shards or (stop is not None and stop <= start):
        raise ValueError(f"{place!r} is no place in {shards} shards")
    return Place(shard, start, stop, versions.get(shard))
