"""New memory for a read to fill, of which each piece goes back to the system by itself.

A process gets memory where it first touches it, 4 KiB at a time, at 0.49 s of CPU a GiB on the virtual machine of
``docs/results/``. By huge pages of 2 MiB it is 0.18 s, but those have to be asked for, and what ``malloc`` has begun
with a note of its own can become none any more. Neighbours share huge pages, so that small pieces have them, too.
"""

from __future__ import annotations

import mmap
from contextlib import suppress
from typing import Final

__all__ = ["FRESH_BYTES", "fresh_memory"]

FRESH_BYTES: Final = 128 << 10
"""Below this ``malloc`` is better, since a piece takes whole pages, and the system keeps a list of 65,530 pieces."""

_CAN_ASK: Final = hasattr(mmap, "MADV_HUGEPAGE")


def fresh_memory(length: int) -> mmap.mmap:
    """Memory full of zeros, which costs nothing before it is touched.

    Args:
        length: in bytes, at least 1.

    Raises:
        OSError: there is not so much.
    """
    memory = mmap.mmap(-1, length, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if _CAN_ASK:
        with suppress(OSError):  # a kernel that has none
            memory.madvise(mmap.MADV_HUGEPAGE)
    return memory
