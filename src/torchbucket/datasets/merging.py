"""The states of all ranks and workers, merged into one that any number of them goes on from."""

from __future__ import annotations

from collections.abc import Iterator

from torchbucket.datasets.epochs.resume import merge_epoch_states
from torchbucket.datasets.epochs.state import StateDict
from torchbucket.datasets.tar.state import merge_tar_states, tar_states_in
from torchbucket.public import public

__all__ = ["merge_states"]


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
    states = list(states) if isinstance(states, Iterator) else states
    if shards := list(tar_states_in(states)):
        return merge_tar_states(shards)
    return merge_epoch_states(states, batch_size=batch_size, drop_last=drop_last).to_dict()
