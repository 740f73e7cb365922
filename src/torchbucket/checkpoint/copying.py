"""Copying many pieces of memory at once."""

from __future__ import annotations

import os
from typing import Final

import numpy as np

from torchbucket.store.thread_pool import ThreadPool

__all__ = ["copy_all"]

# Source: measured on 2 busy cores, 512 MiB in 128 tensors: 0.19 s by two threads, 0.24 by one, 1.2 to 2.6 by torch.
_COPYING_THREADS: Final = min(4, os.cpu_count() or 1)
_COPIED_BY_ONE_BYTES: Final = 8 << 20
_COPIED_AT_ONCE_BYTES: Final = 64 << 10  # by Python itself, in less time than it takes to make two arrays


def copy_all(copies: list[tuple[memoryview, memoryview]]) -> None:
    """Copy each second one over the first, which has its length.

    Not by torch: its threads meet after each tensor, and on a busy machine all wait for the last.
    """
    if sum(len(place) for place, _ in copies) <= _COPIED_BY_ONE_BYTES:
        _copy(copies)
        return
    with ThreadPool(_COPYING_THREADS, thread_name_prefix="torchbucket-copy") as pool:
        for _ in pool.map(_copy, (copies[first::_COPYING_THREADS] for first in range(_COPYING_THREADS))):
            pass


def _copy(copies: list[tuple[memoryview, memoryview]]) -> None:
    for place, piece in copies:
        if len(piece) < _COPIED_AT_ONCE_BYTES:
            place[:] = piece
        else:  # by numpy, which lets go of the GIL meanwhile
            np.frombuffer(place, np.uint8)[:] = np.frombuffer(piece, np.uint8)
