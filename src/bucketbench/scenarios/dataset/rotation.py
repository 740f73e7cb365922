"""Which samples of a pass are compared whole: of one that is measured, a share that goes round."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable
from typing import Final

import numpy as np

__all__ = ["EVERY_SAMPLE", "Rotation"]

EVERY_SAMPLE: Final = -1
"""The turn in which each sample is due."""


class Rotation:
    """Puts the samples into an order drawn by lot, and has each measured epoch take up where the last one ended.

    So each epoch compares as many samples whole as the next, one at least, and after ``1 / share`` epochs, rounded up,
    each of them once. The lot is drawn anew for each job: no client can know whose turn it is, and repeats compare
    other samples.

    Holds plain values, 4 bytes a sample: it can be pickled and forked.
    """

    def __init__(self, samples: int, *, share: float, lot: int) -> None:
        """Take turns.

        Args:
            samples: how many there are, one at least.
            share: of the samples that an epoch compares whole, above 0 and up to 1.
            lot: seed of the order; the same in all ranks of a job.
        """
        self._samples = samples
        # 0.1 of 30 samples are 3, whatever the last bit of their product says.
        self._each = min(max(math.ceil(round(samples * share, 6)), 1), samples)
        self._places = array("I", np.random.default_rng(lot).permutation(samples).astype(np.uint32).tobytes())

    def turn(self, epoch: int) -> int:
        """What to ask ``due`` by in a measured epoch, numbered from 0."""
        return EVERY_SAMPLE if self._each == self._samples else epoch * self._each % self._samples

    def due(self, turn: int) -> Callable[[int], bool]:
        """Tells of a sample's position in the list of samples whether it is to be compared whole in a turn."""
        if turn == EVERY_SAMPLE:
            return lambda _: True
        places, samples, each = self._places, self._samples, self._each
        return lambda position: (places[position] - turn) % samples < each
