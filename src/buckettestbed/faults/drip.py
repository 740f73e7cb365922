"""A body that comes slowly, whatever the network model."""

import asyncio
import time

__all__ = ["Drip"]

_PIECES_PER_S = 20
"""*Source*: ours; often enough that the stream looks steady to a client, seldom enough to cost nothing."""


class Drip:
    """The pace of one body.

    Args:
        bytes_per_s: its rate.
    """

    def __init__(self, bytes_per_s: float) -> None:
        self._bytes_per_s = bytes_per_s
        self._due_s = time.monotonic()

    @property
    def piece_bytes(self) -> int:
        """How many bytes to send at once."""
        return max(1, int(self._bytes_per_s / _PIECES_PER_S))

    async def due(self, size_bytes: int) -> None:
        """Returns when the last of the next `size_bytes` is due."""
        self._due_s += size_bytes / self._bytes_per_s
        await asyncio.sleep(max(0.0, self._due_s - time.monotonic()))
