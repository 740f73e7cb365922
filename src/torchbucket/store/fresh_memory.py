"""New memory for a read to fill, of which each piece goes back to the system by itself.

A process gets memory where it first touches it, 4 KiB at a time, at 0.49 s of CPU a GiB on the virtual machine of
``docs/results/``. By huge pages of 2 MiB it is 0.18 s, but those have to be asked for, and what ``malloc`` has begun
with a note of its own can become none any more. Neighbours share huge pages, so that small pieces have them, too. Where
the host of a virtual machine has yet to find the memory, a huge page takes a millisecond: not to be waited for by who
receives, hence ``populate``.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Final

__all__ = ["FRESH_BYTES", "fresh_memory", "populate"]

FRESH_BYTES: Final = 128 << 10
"""Below this ``malloc`` is better, since a piece takes whole pages, and the system keeps a list of 65,530 pieces."""

_CAN_ASK: Final = hasattr(mmap, "MADV_HUGEPAGE")
_POPULATE_WRITE: Final = 23  # Source: madvise(2), MADV_POPULATE_WRITE, since Linux 5.14
_POPULATED_BYTES: Final = 4 << 20  # between two looks at whether it is still wanted; a few milliseconds


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


def populate(pieces: Iterable[tuple[int, int]], reads: Sequence[Future[Any]]) -> None:
    """Have the system give memory before it is touched, where it can be told to; no byte changes, whoever writes them.

    Meant for the thread that waits for the reads into it: another processor does then what each first touch would wait
    for. It ends as soon as they do; where it is interrupted, it gives them up.

    Args:
        pieces: address and length in bytes of each, in the order in which they are filled; small ones are passed over.
        reads: what fills them.
    """
    madvise = _madvise
    if madvise is None:
        return
    try:
        for address, length in pieces:
            if length < FRESH_BYTES:
                continue
            for start in range(address, address + length, _POPULATED_BYTES):
                if all(read.done() for read in reads):
                    return
                if madvise(start, min(_POPULATED_BYTES, address + length - start), _POPULATE_WRITE):
                    return
    except BaseException:
        for read in reads:
            read.cancel()
        raise
    finally:
        del reads  # An error keeps the frames that it passes, which must not keep it in turn.


def _find_madvise() -> Callable[[int, int, int], Any] | None:
    """The C library's, which unlike Python's lets go of the GIL meanwhile."""
    if sys.platform != "linux":
        return None
    try:
        madvise = ctypes.CDLL(None).madvise
    except (OSError, AttributeError):
        return None
    madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return madvise


_madvise: Final = _find_madvise()
