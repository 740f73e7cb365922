"""How a data set reads and deals out its objects: the settings that its constructors share.

What a type checker is told of them (``…Options``) and what describes and checks them (``…Settings``) go together; a
test holds them against one another.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypedDict

from torchbucket.config import StoreConfig, check_config
from torchbucket.datasets.epochs.order import check_seed, check_shuffle
from torchbucket.datasets.epochs.sharding import Even, Rank, check_even, check_sharding
from torchbucket.datasets.prefetch import PREFETCH_BYTES, PREFETCH_OBJECTS, Fetch, PrefetchBudget, check_fetch
from torchbucket.store.protocol import ObjectInfo

__all__ = [
    "IterableOptions",
    "IterableSettings",
    "MapOptions",
    "MapSettings",
    "ReadSettings",
    "Select",
    "StreamOptions",
    "StreamSettings",
]


Select = Callable[[ObjectInfo], bool]
"""Says of each listed object whether a data set keeps it."""


class ReadOptions(TypedDict, total=False):
    """Keyword arguments of all constructors; ``ReadSettings`` describes them."""

    config: StoreConfig | None
    pin_versions: bool
    prefetch_bytes: int


class MapOptions(ReadOptions, total=False):
    """Keyword arguments of ``MapDataset``'s constructors; ``MapSettings`` describes them."""

    fetch: Fetch


class StreamOptions(ReadOptions, total=False):
    """Keyword arguments of the streams' constructors; ``StreamSettings`` describes them."""

    shuffle: bool
    seed: int
    rank: int | None
    world_size: int | None
    sharding: bool


class IterableOptions(StreamOptions, total=False):
    """Keyword arguments of ``IterableDataset``'s constructors; ``IterableSettings`` describes them."""

    fetch: Fetch
    prefetch_objects: int
    even: bool | Even


@dataclass(frozen=True, kw_only=True)
class ReadSettings:
    """How any data set reads.

    Args:
        config: how to reach the bucket; None means ``StoreConfig()``.
        pin_versions: read every object (shard) in the version that the listing or manifest has; one that was
            overwritten since raises ``ObjectChangedError``. Without, it is read as it is, in one version.
        prefetch_bytes: bound, for each worker, on what is fetched ahead of its use: the next objects, and of a
            ``MapDataset`` those of the batches that the loader has asked for. One that is larger is read alone.

    Raises:
        ConfigError: a setting is wrong.
    """

    config: StoreConfig | None = None
    pin_versions: bool = False
    prefetch_bytes: int = PREFETCH_BYTES

    def __post_init__(self) -> None:
        check_config(self.config)
        PrefetchBudget(bytes=self.prefetch_bytes)


@dataclass(frozen=True, kw_only=True)
class MapSettings(ReadSettings):
    """How a map-style data set reads.

    Args:
        fetch: ``"whole"`` fetches every object, concurrently with the rest of its batch, before ``transform`` runs;
            ``"lazy"`` fetches the ranges that ``transform`` reads, when it does, for a small part of large objects;
            ``Compose(…)`` has Cloud Storage join small objects of a batch, and reads them as one.
    """

    fetch: Fetch = "whole"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fetch(self.fetch)

    @property
    def budget(self) -> PrefetchBudget:
        """What may be on its way at once: a batch's objects have no bound on their number."""
        return PrefetchBudget(bytes=self.prefetch_bytes, objects=None)


@dataclass(frozen=True, kw_only=True)
class StreamSettings(ReadSettings):
    """How a stream orders and deals out its objects.

    Args:
        shuffle: take the objects (shards) in an order that the seed and the epoch's number decide, instead of the
            listing's.
        seed: chooses the orders; the same on all ranks.
        rank: this process' number in the job, with ``world_size``; None means to find out at each iteration.
        world_size: how many processes share the objects.
        sharding: False deals out nothing: every rank and every worker yields all samples, for code that shares out by
            itself.
    """

    shuffle: bool = False
    seed: int = 0
    rank: int | None = None
    world_size: int | None = None
    sharding: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_shuffle(self.shuffle)
        check_seed(self.seed)
        check_sharding(self.sharding, self.given_rank)

    @property
    def given_rank(self) -> Rank | None:
        """The rank, where it was given."""
        return Rank.given(self.rank, self.world_size)


@dataclass(frozen=True, kw_only=True)
class IterableSettings(StreamSettings):
    """How a stream of whole objects reads, orders and deals them out.

    Args:
        fetch: ``"whole"`` fetches objects ahead, before ``transform`` runs; ``"lazy"`` fetches the ranges that
            ``transform`` reads, when it does, for a small part of large objects; ``Compose(…)`` has Cloud Storage join
            small neighbours, and reads them as one.
        prefetch_objects: bound on the number of objects fetched ahead.
        even: give every rank and worker the same number of samples: ``"pad"``, or True, repeats a few, ``"drop"``
            leaves a few out.
    """

    fetch: Fetch = "whole"
    prefetch_objects: int = PREFETCH_OBJECTS
    even: bool | Even = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fetch(self.fetch)
        check_even(self.even)
        PrefetchBudget(bytes=self.prefetch_bytes, objects=self.prefetch_objects)

    @property
    def budget(self) -> PrefetchBudget:
        """What may be on its way at once."""
        return PrefetchBudget(bytes=self.prefetch_bytes, objects=self.prefetch_objects)
