"""The ranks of a job: one measured process each, started by torchrun.

Source: the environment variables that torchrun sets, https://pytorch.org/docs/stable/elastic/run.html
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Ranks"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Ranks:
    """Which of a job's ranks this process is, and what all of them do together.

    With one rank nothing is done together, and ``torch.distributed`` is not touched. Every method is for all ranks to
    call, in the same order.

    Args:
        rank: this process's, from 0.
        world_size: how many there are.
    """

    rank: int = 0
    world_size: int = 1

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """As torchrun has set the variables; one rank where it has not."""
        return cls(rank=int(environment.get("RANK", "0")), world_size=int(environment.get("WORLD_SIZE", "1")))

    @property
    def is_first(self) -> bool:
        """Whether this is the rank that speaks for all."""
        return self.rank == 0

    @contextmanager
    def joined(self) -> Iterator[None]:
        """A block in which the ranks are a process group, of gloo: what they exchange is a few numbers."""
        if self.world_size == 1:
            yield
            return
        import torch.distributed as dist

        dist.init_process_group("gloo")
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
