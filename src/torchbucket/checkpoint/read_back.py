"""Verification of what was saved: the object is read back in pieces and its checksum compared."""

from __future__ import annotations

import io
from collections import deque
from concurrent.futures import Future
from typing import TYPE_CHECKING, BinaryIO, Final

from torchbucket.config import MIB
from torchbucket.errors import ChecksumError
from torchbucket.store.arguments import byte_view
from torchbucket.store.http.checksums import ALGORITHMS
from torchbucket.store.protocol import ObjectData, ObjectInfo, Read, Store

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

__all__ = ["SUM", "SummingFile", "read_back", "sum_of_object"]

SUM: Final = ALGORITHMS["crc64nvme"]
"""The checksum by which bytes are compared: the cheapest that there is."""

# What is read at once and held: a part's usual length, and enough of them that no first byte is waited for.
_READ_BYTES: Final = 8 * MIB
_READS_AHEAD: Final = 8


class SummingFile(io.BufferedIOBase, BinaryIO):
    """Hands what is written on to a file, and keeps its checksum and length."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__()
        self._file = file
        self.value = 0
        """The checksum of what was written."""
        self.size_bytes = 0

    def write(self, data: ReadableBuffer, /) -> int:
        """Write all of it."""
        view = byte_view(data)
        self.value = SUM.compute(view, self.value)
        self.size_bytes += len(view)
        return self._file.write(view)


def read_back(store: Store, info: ObjectInfo, expected: int, *, uri: str) -> None:
    """Read an object and compare it with what was sent.

    Args:
        store: where it is.
        info: what the store has said of it when it was written; this version is read.
        expected: the checksum ``SUM`` of what was sent.
        uri: the object's address.

    Raises:
        ChecksumError: they differ.
        ObjectChangedError: somebody has overwritten it meanwhile.
    """
    value = sum_of_object(store, info)
    if value != expected:
        raise ChecksumError(
            f"save {uri}: the object is there, but what was read back has the {SUM.name} {SUM.text(value)}, and what "
            f"was sent {SUM.text(expected)}: save it again, and do not load this one",
            operation="save",
            uri=uri,
            algorithm=SUM.name,
            expected=SUM.text(expected),
            computed=SUM.text(value),
        )


def sum_of_object(store: Store, info: ObjectInfo) -> int:
    """Read an object in pieces, of which few are in memory at a time, and return the checksum ``SUM`` of its bytes.

    Args:
        store: where it is.
        info: what the store has said of it; this version is read.

    Raises:
        ObjectChangedError: somebody has overwritten it meanwhile.
    """
    starts = iter(range(0, info.size_bytes, _READ_BYTES))
    under_way: deque[Future[ObjectData]] = deque()
    value = 0
    try:
        while True:
            while len(under_way) < _READS_AHEAD and (start := next(starts, None)) is not None:
                stop = min(start + _READ_BYTES, info.size_bytes)
                read = Read(key=info.key, start=start, stop=stop, size_bytes=info.size_bytes, version=info.version)
                under_way.append(store.submit_read(read))
            if not under_way:
                break
            value = SUM.compute(under_way.popleft().result().data, value)
    finally:
        for read_ahead in under_way:
            read_ahead.cancel()
    return value
