"""How far a data set was read, saved beside the model, for any number of ranks to go on from."""

from __future__ import annotations

import json
from typing import Any

import torch.distributed as dist
from torch.distributed.checkpoint.stateful import Stateful

from torchbucket.datasets.merging import merge_states
from torchbucket.dcp.ranks import Ranks
from torchbucket.errors import ConfigError
from torchbucket.public import public_in

__all__ = ["DatasetState"]


@public_in("torchbucket.dcp")
class DatasetState(Stateful):
    """A value in the state that ``torch.distributed.checkpoint`` saves and loads: the state of all ranks' readers.

        dcp.save({"model": …, "data": DatasetState(dataset, loader)}, storage_writer=…)

    What is saved is the states of all ranks and workers in one, so that other ranks and workers go on from it, each
    sample once. Load before the loader is made. Saving and loading talk to the other ranks: all must do it.

    Args:
        dataset: what goes on: an ``IterableDataset`` or a sampler of torchbucket.
        loader: what knows how far it is, where that is not the data set: torchdata's ``StatefulDataLoader``.
        batch_size: see ``torchbucket.merge_states``.
        drop_last: see ``torchbucket.merge_states``.
        process_group: the ranks that save or load together; None means all.
    """

    def __init__(
        self,
        dataset: Any,
        loader: Any = None,
        *,
        batch_size: int | None = None,
        drop_last: bool = False,
        process_group: dist.ProcessGroup | None = None,
    ) -> None:
        for name, value in (("dataset", dataset), ("loader", dataset if loader is None else loader)):
            if not hasattr(value, "state_dict"):
                raise ConfigError(
                    f"{name}: expected an IterableDataset or a sampler of torchbucket, and as loader a "
                    f"StatefulDataLoader; got a {type(value).__name__}, which has no state"
                )
        self._dataset = dataset
        self._loader = dataset if loader is None else loader
        self._batch_size = batch_size
        self._drop_last = drop_last
        self._group = process_group

    def state_dict(self) -> dict[str, Any]:
        """The states of all ranks in one, as JSON: to DCP it is one value, whatever it holds.

        Raises:
            CheckpointError: another rank could not tell its state.
            ConfigError: the states do not fit together, or this rank's cannot be told.
        """
        group = self._group
        if group is None and dist.is_available() and dist.is_initialized():
            group = dist.group.WORLD
        states = Ranks(group).all_do(self._loader.state_dict, "cannot tell how far its data set was read")
        merged = merge_states(states, batch_size=self._batch_size, drop_last=self._drop_last)
        return {"merged": json.dumps(merged)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Have the data set go on from what was saved."""
        self._dataset.load_state_dict(json.loads(state_dict["merged"]))
