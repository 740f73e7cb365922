"""Hashing a body while it arrives, off the event loop.

At its end little is left to do. A store that hashed then would answer an upload of 16 MiB some 50 ms after its last
byte, which is more than the latency that the network model asks for.
"""

import asyncio
import os
from collections.abc import Collection
from concurrent.futures import Future, ThreadPoolExecutor

from buckettestbed.model.digests import RunningDigests

__all__ = ["OFF_LOOP_BYTES", "ArrivingBytes"]

OFF_LOOP_BYTES = 1 << 20
"""So much is hashed in a thread, less on the loop. *Source*: MD5 of 1 MiB takes about 1.6 ms, during which the loop
serves no one."""

_SEGMENT_BYTES = 128 << 10
"""Chunks that are smaller, on average, are joined: a segment each would cost more. *Source*: ours; large bodies come in
chunks of 256 KiB, and a copy into fresh memory takes as long as three CRCs."""

_threads = ThreadPoolExecutor(max_workers=os.cpu_count(), thread_name_prefix="testbed-hashing")


class ArrivingBytes:
    """The digests of what is being written, and the bytes themselves in segments.

    Calls must follow each other; they need not come from the same event loop.

    Args:
        algorithms: of the digests, as `RunningDigests` names them.
        keep: whether to keep the bytes too.
    """

    __slots__ = ("_hashed", "_keep", "_running", "_segments", "_waiting", "_waiting_bytes")

    def __init__(self, algorithms: Collection[str], *, keep: bool) -> None:
        self._keep = keep
        self._running = RunningDigests(algorithms)
        self._segments: list[bytes] = []
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._hashed: Future[None] | None = None

    def write(self, chunk: bytes) -> None:
        """Takes the next bytes."""
        self._waiting.append(chunk)
        self._waiting_bytes += len(chunk)
        if self._waiting_bytes >= OFF_LOOP_BYTES and (self._hashed is None or self._hashed.done()):
            self._hashed = _threads.submit(self._take, self._taken())

    async def finish(self) -> tuple[list[bytes], dict[str, bytes]]:
        """Returns the bytes in segments, if they were kept, and their digests."""
        if self._hashed is not None:
            await asyncio.wrap_future(self._hashed)
        if self._waiting_bytes >= OFF_LOOP_BYTES:
            await asyncio.wrap_future(_threads.submit(self._take, self._taken()))
        elif self._waiting_bytes:
            self._take(self._taken())
        return self._segments, self._running.digests()

    def _taken(self) -> list[bytes]:
        """Returns what waits, which then waits no longer."""
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        return waiting

    def _take(self, chunks: list[bytes]) -> None:
        if len(chunks) * _SEGMENT_BYTES > sum(map(len, chunks)):
            chunks = [b"".join(chunks)]
        self._running.update(chunks)
        if self._keep:
            self._segments += chunks
