"""The ranks that save together, or load together: all of a job's, or the first ones of them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.distributed_c10d import ProcessGroup

from bucketbench.ranks import Ranks

__all__ = ["Party", "device_of", "make_party"]


@dataclass(frozen=True, kw_only=True)
class Party:
    """The first ranks of a job, as one of its ranks sees them.

    Args:
        size: how many they are.
        rank: this process's number among all of the job's.
        group: theirs; None where it is all of the job's ranks, or one.
        device: the kind of device that they have a state on.
    """

    size: int
    rank: int
    group: ProcessGroup | None
    device: str

    @property
    def is_member(self) -> bool:
        """Whether this rank is one of them."""
        return self.rank < self.size

    @property
    def is_alone(self) -> bool:
        """Whether there is nobody to talk to."""
        return self.size == 1

    def mesh(self) -> DeviceMesh | None:
        """A device mesh of theirs, made anew; None where one rank has all of everything."""
        if self.is_alone:
            return None
        if self.group is None:
            return init_device_mesh(self.device, (self.size,))
        return DeviceMesh.from_group(self.group, self.device)


def make_party(size: int, ranks: Ranks, *, device: str) -> Party:
    """The first ``size`` ranks. Every rank of the job calls this, in the same order."""
    # Made by all ranks, though only its members use it.
    group = dist.new_group(list(range(size))) if size < ranks.world_size else None
    return Party(size=size, rank=ranks.rank, group=group if ranks.rank < size else None, device=device)


def device_of(backend: str, local_rank: int) -> torch.device:
    """Where a rank has its state: on its own GPU with nccl, which becomes the process's own; on the host else."""
    if backend != "nccl":
        return torch.device("cpu")
    device = torch.device("cuda", local_rank)
    torch.cuda.set_device(device)
    return device
