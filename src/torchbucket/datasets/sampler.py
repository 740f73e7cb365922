"""The sampler of map-style data sets: a rank's share of a seeded order, resumed at any sample."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sized
from dataclasses import replace
from typing import Any, Self

from torch.utils.data.distributed import DistributedSampler

from torchbucket.datasets.epochs.epoch import EpochPlan
from torchbucket.datasets.epochs.order import check_epoch
from torchbucket.datasets.epochs.outer_sharding import rank_under_outer_sharding
from torchbucket.datasets.epochs.resume import state_after
from torchbucket.datasets.epochs.sharding import Even, Rank, Shard, check_even
from torchbucket.datasets.epochs.state import EpochState, StateDict
from torchbucket.datasets.map import MapDataset
from torchbucket.public import public

__all__ = ["ShardedSampler"]


@public
class ShardedSampler(DistributedSampler[int]):
    """Yields the indices of a rank's share of a map-style data set, in an order that the seed and the epoch decide.

    What ``IterableDataset`` does for streams, for a DataLoader's ``sampler``: the same order and shares, an epoch that
    advances with each complete pass unless ``set_epoch`` names it, ``state_dict`` with ``StatefulDataLoader``,
    ``torchbucket.merge_states`` for another number of ranks. It lives in the loader's process; workers are given
    indices, so their number does not matter.

    It is a ``DistributedSampler`` only in kind: frameworks that put one in front of other samplers (Lightning) leave it
    alone, which would otherwise share out a share.

    Args:
        data_source: what has a length; of a ``MapDataset`` a state also holds a digest of the names.
        shuffle: permute in every epoch anew.
        seed: chooses the orders; the same on all ranks.
        even: True or ``"pad"`` repeats a few indices, ``"drop"`` leaves a few out, so that all ranks get the same
            number; False gives each index once, and some ranks one more.
        rank: this process' number in the job, with ``world_size``; None means to find out at each iteration, as
            ``IterableDataset`` does.
        world_size: how many processes share the indices.

    Raises:
        ConfigError: a setting is wrong.
    """

    def __init__(
        self,
        data_source: Sized,
        *,
        shuffle: bool = True,
        seed: int = 0,
        even: bool | Even = True,
        rank: int | None = None,
        world_size: int | None = None,
    ) -> None:
        # Not the base's own: it asks torch.distributed at once, and computes what is computed here when it is needed.
        self._plan = EpochPlan(
            count=len(data_source),
            names=data_source.names_digest() if isinstance(data_source, MapDataset) else "",
            shuffle=shuffle,
            seed=seed,
            even=check_even(even),
        )
        self._given_rank = Rank.given(rank, world_size)
        self._epoch = 0
        self._loaded: EpochState | None = None
        self._latest: _Indices | None = None

    @property
    def epoch(self) -> int:  # type: ignore[override]  # the base has an attribute; here it has a rule
        """The number of the epoch that the next pass reads, from 0."""
        return self._epoch

    def set_epoch(self, epoch: int) -> None:
        """Name the epoch of the next pass, on every rank alike; a loaded state keeps applying if it is of that one."""
        check_epoch(epoch)
        self._begin(epoch)

    def __len__(self) -> int:
        """How many indices this rank gets in a whole epoch, also where the next pass is the rest of one."""
        return len(EpochState(plan=self._plan, epoch=self._epoch).share(self._shard()))

    def __iter__(self) -> Iterator[int]:
        """Begin to yield this rank's indices."""
        loaded = self._loaded
        state = loaded if loaded and loaded.epoch == self._epoch else EpochState(plan=self._plan, epoch=self._epoch)
        self._latest = _Indices(self, self._shard(), state)
        return self._latest

    def state_dict(self) -> StateDict:
        """How far the latest iterator got; before any, where the next one begins.

        A plain DataLoader's iterator is ahead of what was consumed: see ``state_after``.
        """
        if self._latest is not None:
            return self._latest.state_dict()
        loaded = self._loaded
        return (loaded or EpochState(plan=self._plan, epoch=self._epoch)).to_dict()

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on from a state: the next iteration yields the rest of its epoch, and the one after it the next epoch.

        Raises:
            ConfigError: it is no state, damaged, or of a data set with other objects, order or split.
        """
        loaded = EpochState.from_dict(state_dict, self._plan)
        if loaded.shard is not None and loaded.consumed == len(loaded.share(loaded.shard)):
            loaded = EpochState(plan=self._plan, epoch=loaded.epoch + 1)
        loaded.opened()  # refuses a state that contradicts itself
        self._loaded, self._latest, self._epoch = loaded, None, loaded.epoch

    def state_after(
        self,
        *,
        epoch: int,
        batches: int,
        batch_size: int | None,
        drop_last: bool = False,
        world_size: int | None = None,
    ) -> StateDict:
        """The state after some batches of a plain DataLoader, which keeps none: every rank consumed as many.

        Like what ``torchbucket.merge_states`` returns, it is for any number of ranks.

        Args:
            epoch: the epoch that the batches were of; not ``epoch`` of the sampler, which the loader advances when it
                has asked for the last batch, before it is consumed.
            batches: how many the loader of each rank has yielded in this pass, so since a state was loaded.
            batch_size: the loader's; None where it yields samples.
            drop_last: the loader's.
            world_size: how many ranks there are; None means as many as now.

        Raises:
            ConfigError: a number is out of range, or the epoch has not so many batches.
        """
        loaded = self._loaded
        base = loaded if loaded and loaded.epoch == epoch else EpochState(plan=self._plan, epoch=epoch)
        ranks = self._shard().rank.world_size if world_size is None else world_size
        return state_after(
            base, world_size=ranks, workers=0, batches=batches, batch_size=batch_size, drop_last=drop_last
        )

    def _shard(self) -> Shard:
        outer = rank_under_outer_sharding(self._given_rank)
        return Shard(rank=Shard.current(given=outer or self._given_rank).rank)

    def _begin(self, epoch: int) -> None:
        """Make the next pass one of this epoch."""
        if self._loaded is not None and self._loaded.epoch != epoch:
            self._loaded = None
        if self._latest is not None and self._latest.epoch != epoch:
            self._latest = None
        self._epoch = epoch

    def _passed(self, epoch: int) -> None:
        """An iterator has yielded all of an epoch: the next one is due, if no other was named."""
        if self._epoch == epoch:
            self._loaded = None
            self._epoch = epoch + 1

    def __repr__(self) -> str:
        plan = self._plan
        return f"ShardedSampler({plan.count} indices, shuffle={plan.shuffle}, seed={plan.seed}, even={plan.even!r})"


class _Indices(Iterator[int]):
    """One rank's indices, as far as they were asked for."""

    def __init__(self, sampler: ShardedSampler, shard: Shard, state: EpochState) -> None:
        self._sampler = sampler
        self._shard = shard
        self._begin_at(state)

    @property
    def epoch(self) -> int:
        return self._state.epoch

    def state_dict(self) -> StateDict:
        return replace(self._state, consumed=self._consumed).to_dict()

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        state = EpochState.from_dict(state_dict, self._state.plan)
        self._begin_at(state)
        self._sampler._begin(state.epoch)
        self._sampler._latest = self
        if self._consumed == len(self._share):
            self._sampler._passed(state.epoch)

    def _begin_at(self, state: EpochState) -> None:
        self._share = state.share(self._shard)
        self._state = replace(state, shard=self._shard)
        self._consumed = state.consumed
        self._positions = self._share.positions(state.consumed)

    def __next__(self) -> int:
        try:
            index = next(self._positions)
        except StopIteration:
            self._sampler._passed(self._state.epoch)
            raise
        self._consumed += 1
        return index

    def __iter__(self) -> Self:
        return self
