"""The states of all ranks and workers, merged into one that any number of them goes on from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from torchbucket.datasets.epochs.resume import advanced, merge_epoch_states
from torchbucket.datasets.epochs.state import EpochState, StateDict
from torchbucket.datasets.tar.state import TarState, merge_tar_states
from torchbucket.errors import ConfigError
from torchbucket.public import public

__all__ = ["merge_states"]

# Where torchdata 0.11 keeps what it needs to replay the batches since a snapshot: StatefulDataLoader.state_dict().
_SNAPSHOT, _STEPS_SINCE, _LAST_WORKER = "_snapshot", "_steps_since_snapshot", "_last_yielded_worker_id"
_WORKER_SNAPSHOTS = "_worker_snapshots"


@public
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

    Returns:
        A plain dictionary of numbers, texts and lists, for ``torch.save`` and JSON alike.

    Raises:
        ConfigError: no state is there, one of a rank or worker is missing, or they are of different data sets, epochs
            or beginnings.
    """
    found = list(_states_in(states, batch_size, drop_last))
    if not found:
        raise ConfigError(
            "merge_states found no state of a torchbucket data set or sampler; give it the state_dict() of every "
            "rank's StatefulDataLoader, data set or sampler"
        )
    shards = [state for state in found if isinstance(state, TarState)]
    return (merge_tar_states(shards) if len(shards) == len(found) else merge_epoch_states(found)).to_dict()


def _states_in(states: object, batch_size: int | None, drop_last: bool) -> Iterator[EpochState]:
    """The states inside any nesting; what a loader yielded since its snapshot is counted as consumed."""
    if isinstance(states, Mapping):
        for kind in (EpochState, TarState):
            if kind.MARK in states:
                yield kind.from_dict(states)
                return
        inner = [state for value in states.values() for state in _states_in(value, batch_size, drop_last)]
        steps = states.get(_STEPS_SINCE, 0)
        if inner and steps:
            _check_countable(inner, steps, batch_size)
            snapshot = states[_SNAPSHOT]
            of_workers = snapshot.get(_WORKER_SNAPSHOTS, {})
            _check_shared_out(_states_in(of_workers, batch_size, drop_last), steps, workers=len(of_workers))
            last_worker = snapshot[_LAST_WORKER]
            inner = advanced(inner, steps, batch_size=batch_size or 1, drop_last=drop_last, last_worker=last_worker)
        yield from inner
    elif isinstance(states, Iterable) and not isinstance(states, str | bytes):
        for value in states:
            yield from _states_in(value, batch_size, drop_last)


def _check_countable(states: list[EpochState], steps: int, batch_size: int | None) -> None:
    if any(isinstance(state, TarState) for state in states):
        raise ConfigError(
            f"a loader yielded {steps} batches since it took its workers' states, and how far those got in their "
            "shards is not known: leave snapshot_every_n_steps of the StatefulDataLoader at 1"
        )
    if batch_size is None:
        raise ConfigError(
            f"a loader yielded {steps} batches since its last snapshot (snapshot_every_n_steps is more than 1), and "
            "its state does not say how long they were: give merge_states the loader's batch_size"
        )


def _check_shared_out(states: Iterable[EpochState], steps: int, *, workers: int) -> None:
    for state in states:
        if state.shard is not None and state.shard.workers != workers:
            raise ConfigError(
                f"a loader of {workers} workers yielded {steps} batches since its last snapshot, and one of them "
                f"has the state of {state.shard}: the data set does not share out between workers (sharding=False), "
                "and which yielded what is not known. Leave snapshot_every_n_steps of the StatefulDataLoader at 1"
            )
