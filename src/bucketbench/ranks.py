"""The ranks of a job: one measured process each, started by torchrun.

Source: the environment variables that torchrun sets, https://pytorch.org/docs/stable/elastic/run.html
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["BACKENDS", "Ranks"]

_GROUPS: Final = {"gloo": "gloo", "nccl": "cpu:gloo,cuda:nccl"}

BACKENDS: Final = tuple(_GROUPS)
"""The backends of process groups by name; with ``nccl`` the ranks have what they share on GPUs."""

_EXCHANGES: Final = 8  # the first one makes the connection


@dataclass(frozen=True, kw_only=True, slots=True)
class Ranks:
    """Which of a job's ranks this process is, and what all of them do together.

    With one rank nothing is done together, and ``torch.distributed`` is not touched. Every method is for all ranks to
    call, in the same order.

    Args:
        rank: this process's, from 0.
        world_size: how many there are.
        nodes: on how many machines they are.
        local_rank: this process's among those of its machine, from 0.
    """

    rank: int = 0
    world_size: int = 1
    nodes: int = 1
    local_rank: int = 0

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """As torchrun has set the variables; one rank where it has not."""
        told = {
            "rank": ("RANK", "0"),
            "world_size": ("WORLD_SIZE", "1"),
            "nodes": ("GROUP_WORLD_SIZE", "1"),
            "local_rank": ("LOCAL_RANK", "0"),
        }
        return cls(**{name: int(environment.get(variable, none)) for name, (variable, none) in told.items()})

    @property
    def is_first(self) -> bool:
        """Whether this is the rank that speaks for all."""
        return self.rank == 0

    @contextmanager
    def joined(self, backend: str = "gloo") -> Iterator[None]:
        """A block in which the ranks are a process group.

        Args:
            backend: one of ``BACKENDS``. What is on the host goes by gloo in any case: ranks exchange a few numbers.
        """
        if self.world_size == 1:
            yield
            return
        import torch.distributed as dist

        dist.init_process_group(_GROUPS[backend])
        try:
            yield
        finally:
            dist.destroy_process_group()

    def wait_for_all(self) -> None:
        """Go on when every rank is here."""
        if self.world_size > 1:
            import torch.distributed as dist

            dist.barrier()

    def sum(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """The sums over all ranks, element by element."""
        if self.world_size == 1:
            return counts
        import torch
        import torch.distributed as dist

        total = torch.from_numpy(counts.copy())
        dist.all_reduce(total)
        summed: NDArray[np.int64] = total.numpy()
        return summed

    def greatest(self, value: float) -> float:
        """The greatest of all ranks' values."""
        if self.world_size == 1:
            return value
        import torch
        import torch.distributed as dist

        greatest = torch.tensor([value], dtype=torch.float64)
        dist.all_reduce(greatest, op=dist.ReduceOp.MAX)
        return float(greatest.item())

    def clock_offset_s(self) -> tuple[float, float]:
        """How far rank 0's ``time.monotonic`` is ahead of this one's, and by how much that may be wrong, in seconds.

        Each machine counts from a moment of its own. A rank asks rank 0 for its time, several times; the fastest answer
        was half under way when it came.

        *Source*: F. Cristian, "Probabilistic clock synchronization", Distributed Computing 3 (1989).
        """
        import torch
        import torch.distributed as dist

        told = torch.zeros(1, dtype=torch.float64)
        asked_s, found_s = float("inf"), 0.0
        for other in range(1, self.world_size):
            for _ in range(_EXCHANGES):
                if self.rank == 0:
                    dist.recv(told, src=other)
                    told[0] = time.monotonic()
                    dist.send(told, dst=other)
                elif self.rank == other:
                    started_s = time.monotonic()
                    dist.send(told, dst=0)
                    dist.recv(told, src=0)
                    ended_s = time.monotonic()
                    if ended_s - started_s < asked_s:
                        asked_s = ended_s - started_s
                        found_s = float(told.item()) - (started_s + ended_s) / 2
        return found_s, (0.0 if self.is_first else asked_s / 2)
