"""Which of several machines this process is on. One process of the harness runs on each, started by torchrun or Slurm.

Source: the variables of ``env://``, which torchrun sets and which can be set by hand,
https://pytorch.org/docs/stable/distributed.html#environment-variable-initialization
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from bucketbench.errors import ConfigurationError

__all__ = ["Nodes"]

_ENV: Final = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_SUBMITIT: Final = "SUBMITIT_EXECUTOR"
_LOOPBACK: Final = "127.0.0.1"


@dataclass(frozen=True, kw_only=True, slots=True)
class Nodes:
    """This node's place among those that run the same command.

    Args:
        index: this node's, from 0; node 0 decides and has the results.
        count: how many there are.
        address: of node 0, as the others reach it; empty where there is one node.
        port: where node 0, or its torchrun, keeps the store by which they meet.
        of_one_job: whether the processes were started for one job alone, as Slurm's launcher does, and not for a sweep.
    """

    index: int = 0
    count: int = 1
    address: str = ""
    port: int = 0
    of_one_job: bool = False

    @property
    def is_first(self) -> bool:
        """Whether this is the node that decides and writes the results."""
        return self.index == 0

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """As torchrun, Slurm by way of submitit, or a user by hand has set the variables; one node where none has.

        Raises:
            ConfigurationError: a variable is missing or wrong, or there are several processes on one node.
        """
        if _SUBMITIT in environment:
            return cls._from_submitit()
        if not environment.get("RANK") or environment.get("WORLD_SIZE", "1") == "1":
            return cls()  # WORLD_SIZE alone is what some clusters tell every container
        absent = [name for name in _ENV if not environment.get(name)]
        if absent:
            raise ConfigurationError(
                f"RANK={environment['RANK']} is set and {' and '.join(absent)} {'is' if len(absent) == 1 else 'are'} "
                f"not: start each node by torchrun, or set all of {', '.join(_ENV)}, or none"
            )
        rank, world_size, port = (_whole(environment, name) for name in ("RANK", "WORLD_SIZE", "MASTER_PORT"))
        if not 0 <= rank < world_size:
            raise ConfigurationError(f"RANK={rank} is none of the WORLD_SIZE={world_size} nodes, which count from 0")
        if _whole(environment, "LOCAL_WORLD_SIZE", otherwise=1) != 1:
            raise ConfigurationError(
                f"torchrun has started {environment['LOCAL_WORLD_SIZE']} processes here, and the harness is one on a "
                "node: give torchrun --nproc-per-node=1, and say by ranks=… how many ranks a job has; they are shared "
                "out evenly over the nodes"
            )
        return cls(index=rank, count=world_size, address=environment["MASTER_ADDR"], port=port)

    @classmethod
    def _from_submitit(cls) -> Self:
        from submitit import JobEnvironment
        from submitit.helpers import TorchDistributedEnvironment

        job = JobEnvironment()
        if job.num_tasks == 1:
            return cls()
        place = TorchDistributedEnvironment()
        return cls(
            index=place.rank,
            count=place.world_size,
            # Tasks of the local executor are on this machine, whose own name may be unknown to it.
            address=_LOOPBACK if job.cluster == "local" else place.master_addr,
            port=place.master_port,
            of_one_job=True,
        )


def _whole(environment: Mapping[str, str], name: str, otherwise: int | None = None) -> int:
    text = environment.get(name)
    if text is None and otherwise is not None:
        return otherwise
    try:
        return int(str(text))
    except ValueError:
        raise ConfigurationError(f"{name}={text} cannot be used: expected a whole number") from None
