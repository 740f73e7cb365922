"""How a data set reads and deals out its objects: the settings that its constructors share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypedDict

from torchbucket.config import StoreConfig, check_config
from torchbucket.datasets.epochs.order import check_seed
from torchbucket.datasets.epochs.sharding import Even, Rank, check_even, check_sharding
from torchbucket.datasets.prefetch import PREFETCH_BYTES, PREFETCH_OBJECTS, Fetch, PrefetchBudget, check_fetch
from torchbucket.errors import ConfigError
from torchbucket.store.protocol import ObjectInfo

__all__ = ["IterableOptions", "IterableSettings", "MapOptions", "MapSettings", "Select"]


Select = Callable[[ObjectInfo], bool]
"""Says of each listed object whether a data set keeps it."""


class MapOptions(TypedDict, total=False):
    """Keyword arguments of ``MapDataset``'s constructors; ``MapSettings`` describes them."""

    config: StoreConfig | None
    fetch: Fetch
    prefetch_bytes: int
    pin_versions: bool


class IterableOptions(MapOptions, total=False):
    """Keyword arguments of ``IterableDataset``'s constructors; ``IterableSettings`` describes them."""

    prefetch_objects: int
    shuffle: bool
    seed: int
    even: bool | Even
    rank: int | None
    world_size: int | None
    sharding: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class MapSettings:
    """How a map-style data set reads.

    Args:
        config: how to reach the bucket; None means ``StoreConfig()``.
        fetch: ``"whole"`` fetches every object, concurrently with the rest of its batch, before ``transform`` runs;
            ``"lazy"`` fetches the ranges that ``transform`` reads, when it does, for a small part of large objects;
            ``Compose(…)`` has Cloud Storage join small objects of a batch, and reads them as one.
        prefetch_bytes: bound, for each worker, on the bodies that wait for ``transform``, of a batch and of those that
            the loader has asked for after it; those beyond it are fetched as the first ones are consumed.
        pin_versions: read every object in the version that the listing or manifest has; one that was overwritten since
            raises ``ObjectChangedError``. Without, an object is read as it is, in one version.

    Raises:
        ConfigError: a setting is wrong.
    """

    config: StoreConfig | None = None
    fetch: Fetch = "whole"
    prefetch_bytes: int = PREFETCH_BYTES
    pin_versions: bool = False

    def __post_init__(self) -> None:
        check_config(self.config)
        check_fetch(self.fetch)
        PrefetchBudget(bytes=self.prefetch_bytes)

    @property
    def budget(self) -> PrefetchBudget:
        """What may be on its way at once: a batch's objects have no bound on their number."""
        return PrefetchBudget(bytes=self.prefetch_bytes, objects=None)


@dataclass(frozen=True, kw_only=True, slots=True)
class IterableSettings:
    """How an iterable-style data set reads, orders and deals out its objects.

    Args:
        config: how to reach the bucket; None means ``StoreConfig()``.
        fetch: ``"whole"`` fetches objects ahead, before ``transform`` runs; ``"lazy"`` fetches the ranges that
            ``transform`` reads, when it does, for a small part of large objects; ``Compose(…)`` has Cloud Storage join
            small neighbours, and reads them as one.
        prefetch_bytes: bound, for each iterator (so for each worker), on the bodies fetched ahead. An object that is
            larger is read alone.
        prefetch_objects: bound on their number.
        pin_versions: read every object in the version that the listing or manifest has; one that was overwritten since
            raises ``ObjectChangedError``. Without, an object is read as it is, in one version.
        shuffle: yield in an order that the seed and the epoch's number decide, instead of the listing's.
        seed: chooses the orders; the same on all ranks.
        even: give every rank and worker the same number of samples: ``"pad"``, or True, repeats a few, ``"drop"``
            leaves a few out.
        rank: this process' number in the job, with ``world_size``; None means to find out at each iteration.
        world_size: how many processes share the objects.
        sharding: False deals out nothing: every rank and every worker yields all objects, for code that shares out by
            itself.

    Raises:
        ConfigError: a setting is wrong.
    """

    config: StoreConfig | None = None
    fetch: Fetch = "whole"
    prefetch_bytes: int = PREFETCH_BYTES
    prefetch_objects: int = PREFETCH_OBJECTS
    pin_versions: bool = False
    shuffle: bool = False
    seed: int = 0
    even: bool | Even = False
    rank: int | None = None
    world_size: int | None = None
    sharding: bool = True

    def __post_init__(self) -> None:
        check_config(self.config)
        check_fetch(self.fetch)
        check_seed(self.seed)
        check_even(self.even)
        PrefetchBudget(bytes=self.prefetch_bytes, objects=self.prefetch_objects)
        check_sharding(self.sharding, self.given_rank)
        if not isinstance(self.shuffle, bool):
            raise ConfigError(f"shuffle must be True or False; got {self.shuffle!r}")

    @property
    def budget(self) -> PrefetchBudget:
        """What may be on its way at once."""
        return PrefetchBudget(bytes=self.prefetch_bytes, objects=self.prefetch_objects)

    @property
    def given_rank(self) -> Rank | None:
        """The rank, where it was given."""
        return Rank.given(self.rank, self.world_size)
