"""Objects held in memory: the default, and the faster storage."""

import sys
from bisect import bisect_right
from collections.abc import Collection, Iterable, Sequence
from itertools import accumulate

from buckettestbed.model.contents import Content, Received
from buckettestbed.model.digests import combine_crcs, digests_of
from buckettestbed.model.hashing import ArrivingBytes
from buckettestbed.model.objects import StoredObject

__all__ = ["MemoryContent", "MemoryIncoming", "MemoryStorage"]


class MemoryContent:
    """Bytes in one or more segments, so that completing an upload copies nothing."""

    __slots__ = ("_segments", "_starts", "crc32c", "size_bytes")

    piece_bytes = sys.maxsize

    def __init__(self, segments: Sequence[bytes], *, crc32c: bytes | None = None) -> None:
        self._segments = tuple(segment for segment in segments if segment)
        *starts, self.size_bytes = accumulate((len(segment) for segment in self._segments), initial=0)
        self._starts = tuple(starts)
        self.crc32c = digests_of(self._segments, ["crc32c"])["crc32c"] if crc32c is None else crc32c

    @property
    def segments(self) -> tuple[bytes, ...]:
        """The segments, none of them empty."""
        return self._segments

    def open(self) -> "MemoryContent":
        """Returns itself."""
        return self

    def close(self) -> None:
        """Nothing to do."""

    def read(self, start: int, stop: int) -> bytes | memoryview:
        """Returns a view of the segment that `start` lies in, never a copy."""
        index = bisect_right(self._starts, start) - 1
        segment, begin = self._segments[index], start - self._starts[index]
        end = min(len(segment), stop - self._starts[index])
        return segment if end - begin == len(segment) else memoryview(segment)[begin:end]

    def release(self) -> None:
        """Nothing to do: memory goes with the last reference."""


class MemoryIncoming:
    """Collects a body, and hashes it meanwhile."""

    __slots__ = ("_arriving",)

    def __init__(self, algorithms: Collection[str]) -> None:
        self._arriving = ArrivingBytes(algorithms, keep=True)

    def write(self, chunk: bytes) -> None:
        """Takes the next bytes."""
        self._arriving.write(chunk)

    async def finish(self) -> Received:
        """Returns the body."""
        segments, digests = await self._arriving.finish()
        return Received(content=MemoryContent(segments, crc32c=digests["crc32c"]), digests=digests)

    def discard(self) -> None:
        """Forgets the body."""
        self._arriving = ArrivingBytes((), keep=False)


class MemoryStorage:
    """Keeps everything in this process, and nothing after it."""

    place = "memory"

    def load(self) -> Iterable[tuple[str, float, str, Iterable[StoredObject]]]:
        """Yields nothing: memory is empty at the start."""
        return ()

    def create_bucket(self, name: str, location: str) -> None:
        """Nothing to do: the model's own dictionary is the bucket."""

    def delete_bucket(self, name: str) -> None:
        """Nothing to do."""

    def receive(self, algorithms: Collection[str]) -> MemoryIncoming:
        """Starts to take a body in."""
        return MemoryIncoming(algorithms)

    async def join(self, contents: Sequence[Content]) -> Content:
        """Returns the contents' segments as one content, without copying."""
        segments: list[bytes] = []
        for content in contents:
            assert isinstance(content, MemoryContent), "a memory storage joins only what it received"
            segments.extend(content.segments)
        crc32c = combine_crcs("crc32c", ((content.crc32c, content.size_bytes) for content in contents))
        return MemoryContent(segments, crc32c=crc32c)

    def publish(self, bucket: str, found: StoredObject) -> None:
        """Nothing to do."""

    def remove(self, bucket: str, key: str) -> None:
        """Nothing to do."""

    def close(self) -> None:
        """Nothing to do."""
