"""Random numbers of one sample, the same on every machine and in every process."""

from __future__ import annotations

from enum import IntEnum
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

__all__ = ["Purpose", "SampleRandom"]


class Purpose(IntEnum):
    """What a stream of random numbers is for; two purposes never share numbers."""

    SIZE = 0
    IMAGE = 1
    LABEL = 2


class SampleRandom:
    """A stream of random numbers that depends on seed, sample and purpose alone.

    It takes raw words of PCG64, whose stream numpy promises to keep, where the distributions of its ``Generator``
    may change with a release. *Source:* NumPy, NEP 19, "Random number generator policy".

    Not for use by several threads at once.
    """

    def __init__(self, *, seed: int, index: int, purpose: Purpose) -> None:
        self._bits = np.random.PCG64(np.random.SeedSequence([seed, index, int(purpose)]))

    def unit(self) -> float:
        """A number in [0, 1), uniform, of 53 random bits."""
        return int(self._bits.random_raw() >> 11) / (1 << 53)

    def normal(self) -> float:
        """A number of the standard normal distribution."""
        return NormalDist().inv_cdf(max(self.unit(), 2**-53))

    def below(self, bound: int) -> int:
        """A whole number in [0, bound), uniform (its bias is below ``bound / 2**53``)."""
        return int(self.unit() * bound)

    def octets(self, count: int) -> npt.NDArray[np.uint8]:
        """An array of shape ``(count,)`` of random bytes."""
        words = np.asarray(self._bits.random_raw(-(-count // 8)), dtype=np.uint64)
        return words.astype("<u8", copy=False).view(np.uint8)[:count]
