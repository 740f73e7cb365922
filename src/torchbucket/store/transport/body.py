"""The body of a request: pieces of memory that are sent one after another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

__all__ = ["Body", "in_parts"]

# Pieces below this are joined before they are sent: libcurl makes a system call of each that it is given, and a TLS
# record, which cost more than the copy of so many bytes.
_JOINED_BYTES: Final = 256 << 10


class Body:
    """Memory to send, in pieces, none of which is copied as a whole; it must not change before the request is over.

    Args:
        pieces: flat views of bytes, of any sizes.
    """

    __slots__ = ("_size_bytes", "pieces")

    def __init__(self, pieces: Iterable[memoryview]) -> None:
        self.pieces = tuple(piece for piece in pieces if len(piece))
        self._size_bytes = sum(map(len, self.pieces))

    def __len__(self) -> int:
        return self._size_bytes

    def reader(self) -> Callable[[int], bytes | memoryview]:
        """Return a function that gives, at each call, the next bytes: at most as many as asked for, none at the end."""
        following = iter(self.pieces)
        rest = memoryview(b"")

        def read(most_bytes: int) -> bytes | memoryview:
            nonlocal rest
            given, rest = rest[:most_bytes], rest[most_bytes:]
            joined_bytes = min(most_bytes, _JOINED_BYTES)
            if len(given) >= joined_bytes:
                return given
            pieces, size = [given], len(given)
            while size < joined_bytes and (piece := next(following, None)) is not None:
                if not size and len(piece) >= joined_bytes:
                    rest = piece[most_bytes:]
                    return piece[:most_bytes]
                taken = piece[: joined_bytes - size]
                rest = piece[len(taken) :]
                pieces.append(taken)
                size += len(taken)
            return b"".join(pieces)

        return read


def in_parts(pieces: Iterable[memoryview], part_bytes: int) -> Iterator[Body]:
    """Cut pieces, as if they were one, into bodies of ``part_bytes``, of which only the last may be shorter."""
    part, missing_bytes = list[memoryview](), part_bytes
    for piece in pieces:
        start = 0
        while start < len(piece):
            taken = piece[start : start + missing_bytes]
            part.append(taken)
            start += len(taken)
            missing_bytes -= len(taken)
            if not missing_bytes:
                yield Body(part)
                part, missing_bytes = [], part_bytes
    if part:
        yield Body(part)
