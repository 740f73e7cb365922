"""An object of which some pieces are in memory, as a file object's content."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

from torchbucket.config import KIB
from torchbucket.files.content import check_complete
from torchbucket.store.protocol import ObjectInfo, Store, Target, address_in
from torchbucket.store.writable_bytes import writable_bytes

__all__ = ["PiecewiseContent"]

# Source: at 100 MiB/s a connection 64 KiB take 0.6 ms, little beside a first byte after 20 ms.
_LEAST_FETCH_BYTES: Final = 64 * KIB


class PiecewiseContent:
    """One version of an object whose bytes lie in pieces of memory; a byte that none holds is fetched, and kept.

    Not for use by several threads at once.

    Args:
        store: where the object is.
        info: describes the object; what is fetched is of this version.
        pieces: (start, memory) pairs that do not overlap, in the order of their starts; none is written to.
        frees: let go of a piece once it was read to its end, but for the first and the last one. For readers that go
            through the object once.
    """

    def __init__(self, store: Store, info: ObjectInfo, pieces: Sequence[Target], *, frees: bool = False) -> None:
        self._store = store
        self._info = info
        self._starts = [start for start, _ in pieces]
        self._pieces = [memory for _, memory in pieces]
        self._frees = frees

    @property
    def size_bytes(self) -> int:
        return self._info.size_bytes

    @property
    def version(self) -> str | None:
        """The version that the bytes are of."""
        return self._info.version

    @property
    def pieces(self) -> list[Target]:
        """What is in memory, in the order of the starts."""
        return list(zip(self._starts, self._pieces, strict=True))

    def read(self, start: int, stop: int | None) -> bytes | bytearray | memoryview:
        size = self.size_bytes
        length = (size if stop is None else min(stop, size)) - start
        found = self._from(start, length)
        if length <= len(found):
            return found[: max(0, length)]
        data, memory = writable_bytes(max(2, length))
        filled = self.read_into(start, memory[:length])
        return data if filled == len(data) else data[:filled]

    def read_into(self, start: int, target: memoryview) -> int:
        filled = 0
        while filled < len(target):
            found = self._from(start + filled, len(target) - filled)[: len(target) - filled]
            if not found:
                break
            target[filled : filled + len(found)] = found
            filled += len(found)
            if self._frees:
                self._free(start + filled)
        return filled

    def available(self, start: int) -> memoryview:
        return self._from(start, 1)

    def close(self) -> None:
        """Do nothing: several readers may share the pieces, which go with the last of them."""

    def _from(self, position: int, wanted_bytes: int) -> memoryview:
        """The bytes from ``position`` to the end of the piece that has them; empty only at the object's end."""
        index = bisect_right(self._starts, position) - 1
        if index >= 0:
            offset = position - self._starts[index]
            if offset < len(self._pieces[index]):
                return self._pieces[index][offset:].toreadonly()
        if position >= self.size_bytes:
            return memoryview(b"")
        stop = min(position + max(wanted_bytes, _LEAST_FETCH_BYTES), self.size_bytes)
        if index + 1 < len(self._starts):
            stop = min(stop, self._starts[index + 1])
        data = self._store.read(self._info.key, start=position, stop=stop, version=self._info.version)
        check_complete(data, address_in(self._store, self._info.key), start=position, stop=stop)
        fetched = memoryview(data.data)
        self._starts.insert(index + 1, position)
        self._pieces.insert(index + 1, fetched)
        return fetched.toreadonly()

    def _free(self, position: int) -> None:
        """Let go of the piece that ends at ``position``, if any does."""
        index = bisect_right(self._starts, position - 1) - 1
        inner = 0 < index < len(self._starts) - 1
        if inner and self._starts[index] + len(self._pieces[index]) == position:
            del self._starts[index], self._pieces[index]
