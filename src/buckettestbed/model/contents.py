"""Bytes of objects and parts, apart from where they are held: how they arrive, and how they are read."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

__all__ = ["Content", "ContentGoneError", "DroppedContent", "Incoming", "Reader", "Received", "pieces"]


class ContentGoneError(Exception):
    """What an object's bytes were kept in is gone or was replaced by someone else."""


class Reader(Protocol):
    """An open content: goes on giving the same bytes although the object is replaced or deleted meanwhile."""

    def read(self, start: int, stop: int) -> bytes | memoryview:
        """Returns at least one byte, beginning at `start` and ending before `stop`; fewer than asked where that spares
        a copy."""

    def close(self) -> None:
        """Ends reading."""


class Content(Protocol):
    """Bytes that do not change, wherever they are held."""

    @property
    def size_bytes(self) -> int:
        """Length of the whole."""

    @property
    def crc32c(self) -> bytes:
        """CRC-32C of the whole, big-endian, 4 bytes."""

    @property
    def piece_bytes(self) -> int:
        """The most that is sensibly read at once: no limit in memory, where nothing is copied."""

    def open(self) -> Reader:
        """Starts reading; raises ContentGoneError."""

    def release(self) -> None:
        """Frees what was never published, or a part that is no longer needed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DroppedContent:
    """What is still known of bytes that nobody keeps any more.

    Args:
        size_bytes: their length.
        crc32c: their CRC-32C.
    """

    size_bytes: int
    crc32c: bytes
    piece_bytes: int = 1

    def open(self) -> Reader:
        """Raises ContentGoneError."""
        raise ContentGoneError("its bytes were dropped")

    def release(self) -> None:
        """Nothing to do."""


def pieces(content: Content, start: int, stop: int, piece_bytes: int = 1 << 20) -> Iterator[bytes | memoryview]:
    """Yields the bytes of a content from `start` to before `stop` in pieces of at most `piece_bytes`."""
    reader = content.open()
    try:
        while start < stop:
            piece = reader.read(start, min(stop, start + piece_bytes))
            yield piece
            start += len(piece)
    finally:
        reader.close()


@dataclass(frozen=True, kw_only=True, slots=True)
class Received:
    """A body that arrived whole: its content, and the digests that were asked for, by algorithm name."""

    content: Content
    digests: Mapping[str, bytes]


class Incoming(Protocol):
    """A body that is arriving. Ends with `finish` or `discard`."""

    def write(self, chunk: bytes) -> None:
        """Takes the next bytes."""

    async def finish(self) -> Received:
        """Returns the whole."""

    def discard(self) -> None:
        """Forgets the body, leaving nothing behind."""
