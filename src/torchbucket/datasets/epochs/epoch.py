"""One pass over a data set: what is left of it, in which order, and how that is dealt out to ranks and workers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from torchbucket.datasets.epochs.order import EpochOrder, Positions, check_seed, check_shuffle
from torchbucket.datasets.epochs.sharding import Even, Rank, Shard
from torchbucket.errors import ConfigError

__all__ = ["Epoch", "EpochPlan", "EpochShare", "Stage", "readers_of"]

Stage = tuple[tuple[int, ...], ...]
"""How many of its share each reader has consumed: by rank, then by worker of the rank."""

_FIRST_CHUNK: Final = 64  # the first samples of a pass do not wait for the order of thousands
_CHUNK: Final = 4096


@dataclass(frozen=True, kw_only=True, slots=True)
class EpochPlan:
    """What all epochs of a data set have in common, and what two processes must agree on to share one.

    Args:
        count: how many objects there are.
        names: a short digest of their names, which tells one data set from another of the same count.
        shuffle: permute them anew in every epoch.
        seed: chooses the permutations.
        even: None deals out each object once, so that readers may differ by one; ``"pad"`` repeats a few, ``"drop"``
            leaves a few out, at most one less than there are readers, so that all readers get the same number.

    Raises:
        ConfigError: the seed is not a whole number.
    """

    count: int
    names: str
    shuffle: bool = False
    seed: int = 0
    even: Even | None = None

    def __post_init__(self) -> None:
        check_seed(self.seed)
        check_shuffle(self.shuffle)


def readers_of(stage: Stage) -> Iterator[tuple[Shard, int]]:
    """The readers of a stage, rank by rank, and how many objects each consumed."""
    for rank, workers in enumerate(stage):
        for worker, consumed in enumerate(workers):
            place = Rank(rank=rank, world_size=len(stage))
            yield Shard(rank=place, worker=worker, workers=len(workers)), consumed


class Epoch:
    """One epoch: the plan's objects in this epoch's order, less those that earlier stages consumed.

    A stage is one deal of what was left before it to some number of ranks and workers, and how far each got. What no
    reader of it consumed is left, in the epoch's order, and is what the next stage deals. So an epoch can go on with
    other ranks and workers any number of times, and each object comes once.

    Args:
        plan: what the epochs have in common.
        number: the epoch's number, from 0.
        stages: the deals that are over.

    Raises:
        ConfigError: a stage consumed more than it was dealt.
    """

    def __init__(self, plan: EpochPlan, number: int, stages: tuple[Stage, ...] = ()) -> None:
        self.plan = plan
        self.number = number
        self.stages = stages
        self._order = EpochOrder(plan.count, shuffle=plan.shuffle, seed=plan.seed, epoch=number)
        self._remainders: list[_Remainder] = []
        self.left = plan.count
        for stage in stages:
            self._check(stage)
            remainder = _Remainder(self.left, stage)
            self._remainders.append(remainder)
            self.left = len(remainder)

    def share(self, shard: Shard) -> EpochShare:
        """What one reader gets of what is left."""
        return EpochShare(self, shard)

    def readers(self, stage: Stage) -> Iterator[tuple[EpochShare, int]]:
        """What each reader of a deal of what is left gets, and how much of it the stage says it consumed."""
        for shard, consumed in readers_of(stage):
            yield self.share(shard), consumed

    def positions(self, places: Positions) -> Positions:
        """The positions in the listing of the objects at these places of what is left."""
        for remainder in reversed(self._remainders):
            places = remainder.places(places)
        return self._order.positions(places)

    def _check(self, stage: Stage) -> None:
        for share, consumed in self.readers(stage):
            if not 0 <= consumed <= len(share):
                raise ConfigError(
                    f"the state says that {share.shard} consumed {consumed} objects of the {len(share)} that it was "
                    "dealt: it is damaged, or of another data set"
                )


class EpochShare:
    """One reader's objects in one epoch, in the order in which it reads them. Has a length."""

    def __init__(self, epoch: Epoch, shard: Shard) -> None:
        self.epoch = epoch
        self.shard = shard
        self._dealt = shard.places(epoch.left, epoch.plan.even)

    def __len__(self) -> int:
        return len(self._dealt)

    def positions(self, start: int = 0) -> Iterator[int]:
        """Yield the positions in the listing of the share's objects, but for the first ``start``."""
        size = _FIRST_CHUNK
        while start < len(self._dealt):
            dealt = self._dealt[start : start + size]
            places = np.arange(dealt.start, dealt.stop, dealt.step, dtype=np.int64)
            # Beyond the end are the repeats of an even split: the first ones of the deal once more.
            yield from self.epoch.positions(places % self.epoch.left).tolist()
            start += size
            size = _CHUNK


class _Remainder:
    """What the readers of a deal of ``count`` places left, in order; kept as the places of its ragged front alone."""

    def __init__(self, count: int, stage: Stage) -> None:
        taken = [shard.places(count)[:consumed] for shard, consumed in readers_of(stage)]
        self._stop = max((places[-1] + 1 for places in taken if places), default=0)
        left = np.ones(self._stop, np.bool_)
        for places in taken:
            left[places.start : places.stop : places.step] = False
        self._front: Positions = np.flatnonzero(left)
        self._count = count

    def __len__(self) -> int:
        return len(self._front) + self._count - self._stop

    def places(self, places: Positions) -> Positions:
        """Where in the deal the places of what is left were."""
        found = places - len(self._front) + self._stop
        in_front = places < len(self._front)
        found[in_front] = self._front[places[in_front]]
        return found
