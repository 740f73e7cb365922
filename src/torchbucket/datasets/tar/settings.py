"""How a data set over tar shards reads, orders and deals them out: its settings, checked before a request."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations
from typing import Literal, TypedDict, get_args

from torchbucket.config import StoreConfig, check_config
from torchbucket.datasets.epochs.order import check_seed
from torchbucket.datasets.epochs.sharding import Rank, check_sharding
from torchbucket.datasets.prefetch import PREFETCH_BYTES, PrefetchBudget
from torchbucket.errors import ConfigError

__all__ = ["TarFetch", "TarOptions", "TarSettings"]

TarFetch = Literal["whole", "lazy"]


class TarOptions(TypedDict, total=False):
    """Keyword arguments of ``TarDataset``'s constructors; ``TarSettings`` describes them."""

    config: StoreConfig | None
    extensions: Iterable[str] | None
    fetch: TarFetch
    prefetch_bytes: int
    pin_versions: bool
    shuffle: bool
    shuffle_buffer: int
    seed: int
    rank: int | None
    world_size: int | None
    sharding: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class TarSettings:
    """How a data set over tar shards reads, orders and deals out its samples.

    Args:
        config: how to reach the bucket; None means ``StoreConfig()``.
        extensions: which members a sample has, such as ``["jpg", "cls"]``, compared without regard to case; the fields
            are called as they are here. Samples that have none of them are left out. None means all members.
        fetch: ``"whole"`` reads shards from one end to the other; ``"lazy"`` reads headers and the members that
            ``extensions`` names, and jumps over what is between them, for a small part of large shards.
        prefetch_bytes: bound, for each iterator (so for each worker), on what is fetched ahead. A sample that is larger
            is read all the same.
        pin_versions: read every shard in the version that the listing or manifest has; one that was overwritten since
            raises ``ObjectChangedError``. Without, a shard is read as it is, in one version.
        shuffle: take the shards in an order that the seed and the epoch's number decide, instead of the listing's.
        shuffle_buffer: yield at random one of so many samples that follow; 0 or 1 yields them in the shards' order. The
            buffer is in memory beside ``prefetch_bytes``.
        seed: chooses the orders; the same on all ranks.
        rank: this process' number in the job, with ``world_size``; None means to find out at each iteration.
        world_size: how many processes share the shards.
        sharding: False deals out nothing: every rank and every worker yields all samples, for code that shares out by
            itself.

    Raises:
        ConfigError: a setting is wrong.
    """

    config: StoreConfig | None = None
    extensions: Iterable[str] | None = None
    fetch: TarFetch = "whole"
    prefetch_bytes: int = PREFETCH_BYTES
    pin_versions: bool = False
    shuffle: bool = False
    shuffle_buffer: int = 0
    seed: int = 0
    rank: int | None = None
    world_size: int | None = None
    sharding: bool = True

    def __post_init__(self) -> None:
        check_config(self.config)
        if self.fetch not in get_args(TarFetch):
            raise ConfigError(f"fetch of tar shards must be 'whole' or 'lazy'; got {self.fetch!r}")
        check_seed(self.seed)
        PrefetchBudget(bytes=self.prefetch_bytes)
        check_sharding(self.sharding, self.given_rank)
        if not isinstance(self.shuffle, bool):
            raise ConfigError(f"shuffle must be True or False; got {self.shuffle!r}")
        buffer = self.shuffle_buffer
        if not isinstance(buffer, int) or isinstance(buffer, bool) or buffer < 0:
            raise ConfigError(f"shuffle_buffer must be a number of samples from 0; got {buffer!r}")
        object.__setattr__(self, "extensions", _checked_extensions(self.extensions))

    @property
    def wanted(self) -> frozenset[str] | None:
        """The extensions of the members to read; None means all."""
        return None if self.extensions is None else frozenset(self.extensions)

    @property
    def given_rank(self) -> Rank | None:
        """The rank, where it was given."""
        return Rank.given(self.rank, self.world_size)


def _checked_extensions(extensions: Iterable[str] | None) -> tuple[str, ...] | None:
    if extensions is None:
        return None
    if isinstance(extensions, str):
        raise ConfigError(f"extensions takes several texts, such as [{extensions!r}]; got one text")
    found = tuple(extensions)
    for extension in found:
        if not isinstance(extension, str) or not extension or extension.startswith(".") or "/" in extension:
            raise ConfigError(f"an extension is what follows a name's first dot, such as 'jpg'; got {extension!r}")
    for first, second in combinations(found, 2):
        if first != second and first.lower() == second.lower():
            raise ConfigError(f"extensions are compared without regard to case; got {first!r} and {second!r}")
    if not found:
        raise ConfigError("extensions must name at least one; None means all")
    return found
