"""A listing sent to many child processes: its columns lie in one place that all of them see."""

from __future__ import annotations

import pickle
from typing import Final

from torchbucket.datasets.shared_block import SharedBlock
from torchbucket.listing import Listing

__all__ = ["SharedListing"]

_ALIGNMENT_BYTES: Final = 64


class SharedListing:
    """A listing whose columns, in one block of memory, a child process maps instead of receiving a copy.

    Args:
        listing: what to share; its columns are copied once, here.
    """

    def __init__(self, listing: Listing) -> None:
        columns: list[pickle.PickleBuffer] = []
        # Protocol 5 leaves long buffers out of the pickle and hands them over.
        self._outline = pickle.dumps(listing, protocol=5, buffer_callback=columns.append)
        self._extents: list[tuple[int, int]] = []
        start = 0
        for column in columns:
            stop = start + column.raw().nbytes
            self._extents.append((start, stop))
            start = -(-stop // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES
        self._block = SharedBlock(max(1, start))
        for (begin, end), column in zip(self._extents, columns, strict=True):
            self._block.memory[begin:end] = column.raw()

    def opened(self) -> Listing:
        """The listing, over the shared columns, which nobody can write through it."""
        memory = memoryview(self._block.memory).toreadonly()
        columns = [memory[start:stop] for start, stop in self._extents]
        listing = pickle.loads(self._outline, buffers=columns)  # noqa: S301  # made above, sent by the parent process
        assert isinstance(listing, Listing)
        return listing
