"""How far an epoch over shards got: which of them were begun, and what of those is left."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from torchbucket.datasets.epochs.epoch import Epoch, EpochPlan, EpochShare, Stage
from torchbucket.datasets.epochs.resume import merge_epoch_states
from torchbucket.datasets.epochs.sharding import Shard
from torchbucket.datasets.epochs.state import EpochState, StateDict, whole_number
from torchbucket.datasets.tar.sample import Place
from torchbucket.errors import ConfigError

__all__ = ["TarState", "merge_tar_states", "tar_states_in"]

_MARK: Final = "torchbucket_tar_state"
_VERSION: Final = 1
_STEPS_SINCE: Final = "_steps_since_snapshot"  # torchdata 0.11: batches yielded since the workers' states were taken


@dataclass(frozen=True, kw_only=True, slots=True)
class TarState:
    """How far an epoch got, for one reader or, merged, for all.

    Args:
        shards: which shards were begun: the state of a data set of whole objects, its ``consumed`` the shards of the
            reader's share that it began.
        rest: what is left of the shards that were begun, in the order in which it is read.
        buffer: the samples in the reader's shuffle buffer, slot by slot.
        draws: how often the reader drew from that buffer.
    """

    shards: EpochState
    rest: tuple[Place, ...] = ()
    buffer: tuple[Place, ...] = ()
    draws: int = 0

    def of_reader(self, shard: Shard) -> tuple[EpochShare, Self]:
        """One reader's shards, and its own state: what of the rest falls to it, if the state is of no one reader.

        Raises:
            ConfigError: this is the state of another reader.
        """
        share = self.shards.share(shard)
        if self.shards.shard is not None:
            return share, self
        rest = tuple(self.rest[place] for place in shard.places(len(self.rest)))
        return share, replace(self, shards=replace(self.shards, shard=shard), rest=rest)

    @classmethod
    def beginning(cls, plan: EpochPlan, epoch: int) -> Self:
        """Where an epoch begins, for any reader."""
        return cls(shards=EpochState.beginning(plan, epoch))

    @property
    def plan(self) -> EpochPlan:
        """Which shards, in which order."""
        return self.shards.plan

    @property
    def epoch(self) -> int:
        """The epoch's number."""
        return self.shards.epoch

    def opened(self) -> Epoch:
        """The epoch with what is left of its shards; raise ``ConfigError`` where the state contradicts the plan."""
        return self.shards.opened()

    def is_finished(self) -> bool:
        """Whether the reader has yielded all that falls to it."""
        return not self.rest and not self.buffer and self.shards.is_finished()

    def to_dict(self) -> StateDict:
        """The state as numbers, texts and lists, for ``torch.save`` and JSON alike."""
        versions = {place.shard: place.version for place in (*self.rest, *self.buffer) if place.version is not None}
        return {
            _MARK: _VERSION,
            "shards": self.shards.to_dict(),
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
        if not isinstance(state, Mapping) or _MARK not in state:
            raise ConfigError(
                "expected a state of a TarDataset; got "
                f"{'a dictionary without ' + repr(_MARK) if isinstance(state, Mapping) else type(state).__name__}. "
                "A StatefulDataLoader loads its own states; torchbucket.merge_states takes them too"
            )
        if state[_MARK] != _VERSION:
            raise ConfigError(
                f"the state has version {state[_MARK]!r}, and this torchbucket reads version {_VERSION}: load it with "
                "the torchbucket that made it"
            )
        try:
            shards = EpochState.from_dict(state["shards"], plan)
            versions = {shard: str(version) for shard, version in state["versions"]}
            made = cls(
                shards=shards,
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


def tar_states_in(states: object) -> Iterator[TarState]:
    """The states of tar data sets inside any nesting of lists and dictionaries.

    Raises:
        ConfigError: a loader yielded batches since it took its workers' states.
    """
    if isinstance(states, Mapping):
        if _MARK in states:
            yield TarState.from_dict(states)
            return
        found = [state for value in states.values() for state in tar_states_in(value)]
        if found and states.get(_STEPS_SINCE):
            raise ConfigError(
                f"a loader yielded {states[_STEPS_SINCE]} batches since it took its workers' states, and how far those "
                "got in their shards is not known: leave snapshot_every_n_steps of the StatefulDataLoader at 1"
            )
        yield from found
    elif isinstance(states, Iterable) and not isinstance(states, str | bytes):
        for value in states:
            yield from tar_states_in(value)


def merge_tar_states(states: list[TarState]) -> StateDict:
    """Join the states of all ranks and workers into one that any number of ranks and workers can go on from.

    Shards that nobody began are dealt out anew. What is left of the others, and the samples in the shuffle buffers, is
    dealt out piece by piece.

    Raises:
        ConfigError: a rank's or worker's is missing, or they are of different data sets, epochs or beginnings.
    """
    shards = [state.shards for state in states]
    merged = merge_epoch_states([state.to_dict() for state in shards])
    if shards[0].shard is None:
        if any(state != states[0] for state in states):
            raise ConfigError("merge_states got states that were merged before, and differ; give it one of them")
        return states[0].to_dict()
    rest = [place for state in _one_of_each(states) for place in (*state.rest, *state.buffer)]
    if merged.epoch != shards[0].epoch and rest:
        # All shards were begun, so none is left to deal, but the epoch is not over.
        merged = replace(shards[0], shard=None, consumed=0, stages=(*shards[0].stages, _stage(shards)))
    return TarState(shards=merged, rest=tuple(rest)).to_dict()


def _one_of_each(states: list[TarState]) -> Iterator[TarState]:
    """The states by rank and worker, those given twice once."""
    by_reader: dict[Shard, TarState] = {}
    for state in states:
        shard = state.shards.shard
        assert shard is not None  # merge_epoch_states has refused a mixture
        if by_reader.setdefault(shard, state) != state:
            raise ConfigError(f"merge_states got two states of {shard} that differ; give it those of one step")
    yield from (by_reader[shard] for shard in sorted(by_reader, key=lambda shard: (shard.rank.rank, shard.worker)))


def _stage(states: list[EpochState]) -> Stage:
    """How many shards each reader began: by rank, then by worker; the merge has seen that none is missing."""
    consumed = {(state.shard.rank.rank, state.shard.worker): state.consumed for state in states if state.shard}
    ranks = sorted({rank for rank, _ in consumed})
    return tuple(tuple(count for (of, _), count in sorted(consumed.items()) if of == rank) for rank in ranks)


def _place(place: object, versions: dict[int, str], shards: int) -> Place:
    if not isinstance(place, list | tuple) or len(place) != 3:
        raise ValueError(f"expected a shard, a start and a stop; got {place!r}")
    shard, start = whole_number(place[0]), whole_number(place[1])
    stop = None if place[2] is None else whole_number(place[2])
    if shard >= shards or (stop is not None and stop <= start):
        raise ValueError(f"{place!r} is no place in {shards} shards")
    return Place(shard, start, stop, versions.get(shard))
