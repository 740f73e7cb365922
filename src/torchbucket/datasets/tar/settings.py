"""How a data set over tar shards reads, orders and deals them out: its settings, checked before a request."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations
from typing import Literal, get_args

from torchbucket.datasets.settings import StreamOptions, StreamSettings
from torchbucket.errors import ConfigError

__all__ = ["TarFetch", "TarOptions", "TarSettings"]

TarFetch = Literal["whole", "lazy"]


class TarOptions(StreamOptions, total=False):
    """Keyword arguments of ``TarDataset``'s constructors; ``TarSettings`` describes them."""

    fetch: TarFetch
    extensions: Iterable[str] | None
    shuffle_buffer: int


@dataclass(frozen=True, kw_only=True)
class TarSettings(StreamSettings):
    """How a data set over tar shards reads, orders and deals out its samples.

    Args:
        fetch: ``"whole"`` reads shards from one end to the other; ``"lazy"`` reads headers and the members that
            ``extensions`` names, and jumps over what is between them, for a small part of large shards.
        extensions: which members a sample has, such as ``["jpg", "cls"]``, compared without regard to case; the fields
            are called as they are here. Samples that have none of them are left out. None means all members.
        shuffle_buffer: yield at random one of so many samples that follow; 0 or 1 yields them in the shards' order. The
            buffer is in memory beside ``prefetch_bytes``.
    """

    fetch: TarFetch = "whole"
    extensions: Iterable[str] | None = None
    shuffle_buffer: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.fetch not in get_args(TarFetch):
            raise ConfigError(f"fetch of tar shards must be 'whole' or 'lazy'; got {self.fetch!r}")
        buffer = self.shuffle_buffer
        if not isinstance(buffer, int) or isinstance(buffer, bool) or buffer < 0:
            raise ConfigError(f"shuffle_buffer must be a number of samples from 0; got {buffer!r}")
        object.__setattr__(self, "extensions", _checked_extensions(self.extensions))

    @property
    def wanted(self) -> frozenset[str] | None:
        """The extensions of the members to read; None means all."""
        return None if self.extensions is None else frozenset(self.extensions)


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
