"""A model that FSDP2 has shared out over the ranks, and an empty one like it to load into."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from bucketbench.checkpointing.state import StateSpec, make_state
from bucketbench.checkpointing.state_holder import StateHolder

__all__ = ["ShardedModel"]


class ShardedModel:
    """A state's tensors as the parameters of a module, of which each rank has its rows.

    All ranks make it at the same time.

    Args:
        spec: what the state is made of.
    """

    def __init__(self, spec: StateSpec) -> None:
        self.module = _sharded(make_state(spec))
        self.own = _rows(self.module)
        """This rank's rows by the tensors' names; what is changed in them is changed in the module."""
        # By their memory: a tied tensor has two names and counts once.
        self.own_bytes = sum({rows.data_ptr(): rows.nbytes for rows in self.own.values()}.values())
        self._empty: StateHolder | None = None
        self._spec = spec

    def emptied(self) -> tuple[StateHolder, dict[str, torch.Tensor]]:
        """Another module of the kind, filled with zeros, and this rank's rows of it; each call gives the same one."""
        if self._empty is None:
            self._empty = _sharded(make_state(self._spec))
        rows = _rows(self._empty)
        for tensor in rows.values():
            tensor.zero_()
        return self._empty, rows


def _sharded(state: dict[str, torch.Tensor]) -> StateHolder:
    """A module of a state's tensors; FSDP has no scalars, which become vectors of one."""
    module = StateHolder({name: tensor if tensor.dim() else tensor.reshape(1) for name, tensor in state.items()})
    shard = cast(Callable[..., object], fully_shard)  # its overloads know no LightningModule
    shard(module, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
    return module


def _rows(module: StateHolder) -> dict[str, torch.Tensor]:
    parameters = module.model.named_parameters(remove_duplicate=False)
    return {name: cast(DTensor, parameter).to_local().detach() for name, parameter in parameters}
