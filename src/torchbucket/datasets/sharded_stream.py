"""What all iterable-style data sets have in common: which share the calling process reads."""

from __future__ import annotations

from typing import ClassVar, TypeVar

from torch.utils.data import IterableDataset as TorchIterableDataset

from torchbucket.datasets.epochs.order import check_epoch
from torchbucket.datasets.epochs.outer_sharding import rank_under_outer_sharding
from torchbucket.datasets.epochs.sharding import Rank, Shard
from torchbucket.datasets.settings import StreamSettings

__all__ = ["ShardedStream"]

T_co = TypeVar("T_co", covariant=True)


class ShardedStream(TorchIterableDataset[T_co]):
    """A stream whose share is decided when an iteration starts, also inside a layer that shares out itself.

    Args:
        settings: say the rank, if it is not to be found out at each iteration, and whether anything is dealt out.
    """

    # Whether the workers' shares differ by one sample at most.
    _equal_shares: ClassVar[bool] = True

    def __init__(self, settings: StreamSettings) -> None:
        self._given_rank = settings.given_rank
        self._sharding = settings.sharding
        self._inherited_rank: Rank | None = None

    def set_epoch(self, epoch: int) -> None:
        """Name the epoch of the next pass, on every rank alike."""
        check_epoch(epoch)
        # accelerate names the epoch on every rank, and then reads on one: what is wrong is told to all.
        self._outer_rank()

    def _shard(self) -> Shard:
        if not self._sharding:
            return Shard(rank=Rank(rank=0, world_size=1))
        return Shard.current(given=self._outer_rank() or self._given_rank, inherited=self._inherited_rank)

    def _outer_rank(self) -> Rank | None:
        if not self._sharding:
            return None
        return rank_under_outer_sharding(self._given_rank, stream=self, equal_shares=self._equal_shares)

    def __getstate__(self) -> dict[str, object]:
        # A spawned worker has no torch.distributed of its own, and none of the layers around its loader: the data set
        # tells it the rank of who sent it.
        return self.__dict__ | {"_inherited_rank": self._outer_rank() or Rank.initialised() or self._inherited_rank}
