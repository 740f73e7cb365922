"""Which objects one process reads: every one is read once, over all ranks and their workers."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Literal, Self, get_args

import torch.distributed
from torch.utils.data import get_worker_info

from torchbucket.errors import ConfigError

__all__ = ["Even", "Rank", "Shard", "check_even", "check_sharding"]

Even = Literal["pad", "drop"]


def check_even(even: bool | Even | None) -> Even | None:
    """The way to split evenly, of a setting that may be True (``"pad"``) or False; ``ConfigError`` for another."""
    if isinstance(even, bool) or even is None:
        return "pad" if even else None
    if even not in get_args(Even):
        raise ConfigError(f"even must be True, False, 'pad' or 'drop'; got {even!r}")
    return even


@dataclass(frozen=True, kw_only=True, slots=True)
class Rank:
    """A process of a distributed job, by its number.

    Args:
        rank: this process' number, from 0.
        world_size: how many there are.

    Raises:
        ConfigError: the rank is not below the world size, or negative.
    """

    rank: int
    world_size: int

    def __post_init__(self) -> None:
        if not 0 <= self.rank < self.world_size:
            raise ConfigError(
                f"a rank needs 0 <= rank < world_size; got rank={self.rank}, world_size={self.world_size}"
            )

    @classmethod
    def given(cls, rank: int | None, world_size: int | None) -> Self | None:
        """The rank that a caller names by two optional numbers; None where neither is given."""
        if rank is None and world_size is None:
            return None
        if rank is None or world_size is None:
            raise ConfigError(f"rank and world_size go together; got rank={rank}, world_size={world_size}")
        return cls(rank=rank, world_size=world_size)

    @classmethod
    def initialised(cls) -> Self | None:
        """The rank in ``torch.distributed``; None where that is not initialised in this process."""
        if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
            return None
        return cls(rank=torch.distributed.get_rank(), world_size=torch.distributed.get_world_size())

    @classmethod
    def from_environment(cls) -> Self | None:
        """The rank that a launcher wrote into ``RANK`` and ``WORLD_SIZE``; None where it wrote neither.

        *Source:* torchrun, "Environment Variables", https://docs.pytorch.org/docs/stable/elastic/run.html
        """
        rank, world_size = os.environ.get("RANK"), os.environ.get("WORLD_SIZE")
        if rank is None and world_size is None:
            return None
        if rank is None or world_size is None or not (rank.isdecimal() and world_size.isdecimal()):
            raise ConfigError(
                "the environment variables RANK and WORLD_SIZE must both be whole numbers, as torchrun sets them; got "
                f"RANK={rank!r}, WORLD_SIZE={world_size!r}. Correct them, or give rank and world_size to the data set"
            )
        return cls(rank=int(rank), world_size=int(world_size))


def check_sharding(sharding: bool, given: Rank | None) -> None:
    """Raise ``ConfigError`` unless ``sharding`` is True or False, and agrees with the rank that was given."""
    if not isinstance(sharding, bool):
        raise ConfigError(f"sharding must be True or False; got {sharding!r}")
    if not sharding and given is not None:
        raise ConfigError(
            f"with sharding=False nothing is dealt out, so rank and world_size mean nothing; got rank={given.rank}, "
            f"world_size={given.world_size}"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Shard:
    """One reader's share of a deal: the places are dealt to the ranks in turn, and a rank's to its workers in turn.

    So a rank's share depends on the ranks alone, and no two ranks or workers differ by more than one object. It holds
    with another number of workers on every rank.

    Args:
        rank: the process of the job.
        worker: the number of the DataLoader's worker in this rank, from 0.
        workers: how many workers this rank has; 1 without a DataLoader, or with ``num_workers=0``.
    """

    rank: Rank
    worker: int = 0
    workers: int = 1

    @classmethod
    def current(cls, *, given: Rank | None = None, inherited: Rank | None = None) -> Self:
        """The share of the calling process at this moment.

        Args:
            given: the rank that the user named, which overrides everything.
            inherited: the rank of the process that started this worker. A worker that was spawned does not know it
                otherwise, since ``torch.distributed`` is not initialised there; used in workers only.
        """
        worker = get_worker_info()
        rank = (
            given
            or Rank.initialised()
            or (inherited if worker is not None else None)
            or Rank.from_environment()
            or Rank(rank=0, world_size=1)
        )
        return cls(rank=rank) if worker is None else cls(rank=rank, worker=worker.id, workers=worker.num_workers)

    @property
    def readers(self) -> int:
        """How many readers there are, if all ranks have as many workers as this one."""
        return self.rank.world_size * self.workers

    @property
    def first(self) -> int:
        """This reader's number among them, and its first place in a deal."""
        return self.rank.rank + self.rank.world_size * self.worker

    def places(self, count: int, even: Even | None = None) -> range:
        """The places of this share in a deal of ``count`` objects, ascending.

        With ``"pad"`` every reader gets as many as the first one, and a place beyond the deal's end, ``count`` or more,
        stands for one from its beginning once more; with ``"drop"`` as many as the last one. Readers get equal numbers
        if all ranks have equally many workers; however many they have, ``"pad"`` deals out each place.
        """
        step = self.readers
        if even is not None and count:
            rounds = -(-count // step) if even == "pad" else count // step
            count = rounds * step
        return range(self.first, count, step)

    def __str__(self) -> str:
        rank = f"rank {self.rank.rank} of {self.rank.world_size}"
        return f"{rank}, worker {self.worker} of {self.workers}"
