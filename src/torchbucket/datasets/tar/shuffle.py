"""The random draws of a shuffle buffer, which can be taken up at any one of them."""

from __future__ import annotations

import hashlib
from typing import Final

__all__ = ["Draws"]

_MASK: Final = (1 << 64) - 1
_STEP: Final = 0x9E3779B97F4A7C15


class Draws:
    """A sequence of random numbers that its seed decides, the same on every platform, with a counter for a state.

    *Source:* splitmix64 (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014), its
    state begun by BLAKE2b of the seed. Not for secrets.

    Args:
        seed: any text.
        count: how many were drawn before.
    """

    __slots__ = ("_begin", "count")

    def __init__(self, seed: str, count: int = 0) -> None:
        self._begin = int.from_bytes(hashlib.blake2b(seed.encode(), digest_size=8).digest(), "little")
        self.count = count

    def below(self, bound: int) -> int:
        """The next number, from 0 up to ``bound``, every one equally likely but for one part in 2**32 or less."""
        self.count += 1
        mixed = (self._begin + self.count * _STEP) & _MASK
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
        return ((mixed ^ (mixed >> 31)) * bound) >> 64
