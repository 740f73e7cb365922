"""The bytes of a shard that have arrived and may still be needed."""

from __future__ import annotations

from bisect import bisect_right

__all__ = ["MissingBytesError", "ReceivedBytes"]


class MissingBytesError(Exception):
    """Bytes are needed that have not arrived: ``[start, stop)``, the first of them missing."""

    def __init__(self, start: int, stop: int) -> None:
        super().__init__(f"bytes {start} to {stop}")
        self.start = start
        self.stop = stop


class ReceivedBytes:
    """Pieces of one object, in ascending order, without overlap; there may be gaps between them."""

    __slots__ = ("_starts", "_views")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._views: list[memoryview] = []

    def add(self, start: int, data: bytes | bytearray | memoryview) -> None:
        """Take in a piece that begins at or after the end of every other one."""
        if len(data):
            self._starts.append(start)
            self._views.append(memoryview(data).toreadonly())

    def take(self, start: int, stop: int) -> bytes | memoryview:
        """The bytes ``[start, stop)``: a view where one piece holds them, else a copy.

        Raises:
            MissingBytesError: they are not all here; it says from where on.
        """
        if start == stop:
            return b""
        index = bisect_right(self._starts, start) - 1
        if index >= 0:
            offset, view = start - self._starts[index], self._views[index]
            if offset + stop - start <= len(view):
                return view[offset : offset + stop - start]
        return self._joined(max(index, 0), start, stop)

    def _joined(self, index: int, start: int, stop: int) -> bytes:
        pieces, position = [], start
        for piece_start, view in zip(self._starts[index:], self._views[index:], strict=True):
            if position == stop or piece_start > position:
                break
            piece = view[position - piece_start : stop - piece_start]
            pieces.append(piece)
            position += len(piece)
        if position < stop:
            raise MissingBytesError(position, stop)
        return b"".join(pieces)

    def drop_before(self, position: int) -> None:
        """Let go of the pieces that end at or before ``position``."""
        while self._starts and self._starts[0] + len(self._views[0]) <= position:
            del self._starts[0], self._views[0]
