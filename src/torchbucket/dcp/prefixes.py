"""What the names of a checkpoint's files begin with, so that many ranks do not meet in one partition of a bucket."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from torchbucket.errors import ConfigError
from torchbucket.public import public_in

__all__ = ["BinaryPrefixes", "FilePrefixes", "HexPrefixes", "RoundRobinPrefixes"]


@public_in("torchbucket.dcp")
class FilePrefixes(Protocol):
    """Names a directory below the checkpoint for each rank's files; any function of rank and world size is one."""

    def __call__(self, rank: int, world_size: int) -> str:
        """The directory of a rank's files, such as ``0110``; empty for the checkpoint's own."""
        ...


class _Digits:
    """Directories that differ from the first character on, as many as there are ranks, or fewer."""

    _base: int

    def __init__(self, *, count: int | None = None, min_length: int = 4) -> None:
        if count is not None and (not isinstance(count, int) or count < 1):
            raise ConfigError(f"count: how many directories, at least 1, or None for one a rank; got {count!r}")
        if not isinstance(min_length, int) or not 1 <= min_length <= 64:
            raise ConfigError(f"min_length: 1 to 64 digits; got {min_length!r}")
        self._count = count
        self._min_length = min_length

    def __call__(self, rank: int, world_size: int) -> str:
        """The directory of a rank: its number, least significant digit first."""
        number = rank % (self._count or world_size)
        digits = ""
        while number or len(digits) < self._min_length:
            number, digit = divmod(number, self._base)
            digits += "0123456789abcdef"[digit]
        return digits

    def __repr__(self) -> str:
        return f"{type(self).__name__}(count={self._count}, min_length={self._min_length})"


@public_in("torchbucket.dcp")
class BinaryPrefixes(_Digits):
    """Directories of ``0`` and ``1``: a bucket's index splits by characters, and neighbours differ in the first.

    Args:
        count: how many directories, which ranks take in turn; None for one a rank.
        min_length: how many digits at least.
    """

    _base = 2


@public_in("torchbucket.dcp")
class HexPrefixes(_Digits):
    """Directories of hexadecimal digits, of which neighbours differ in the first.

    Args:
        count: how many directories, which ranks take in turn; None for one a rank.
        min_length: how many digits at least.
    """

    _base = 16


@public_in("torchbucket.dcp")
class RoundRobinPrefixes:
    """Directories of your own, which ranks take in turn.

    Args:
        prefixes: their names, paths below the checkpoint.
    """

    def __init__(self, prefixes: Sequence[str]) -> None:
        if isinstance(prefixes, str) or not prefixes or not all(isinstance(one, str) and one for one in prefixes):
            raise ConfigError(f"prefixes: a list of one or more names; got {prefixes!r}")
        self._prefixes = [prefix.strip("/") for prefix in prefixes]

    def __call__(self, rank: int, world_size: int) -> str:
        """The directory of a rank."""
        del world_size
        return self._prefixes[rank % len(self._prefixes)]

    def __repr__(self) -> str:
        return f"RoundRobinPrefixes({self._prefixes})"
