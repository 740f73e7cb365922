"""Where an object reader's bytes come from: a body that is there already, or ranges fetched as they are needed."""

from __future__ import annotations

import os
from concurrent.futures import Future
from typing import Final, Protocol

from torchbucket.config import KIB, MIB
from torchbucket.errors import TruncatedError
from torchbucket.store.base import check_same
from torchbucket.store.protocol import ObjectData, Read, Store
from torchbucket.store.writable_bytes import writable_bytes

__all__ = ["Content", "RangedContent", "WholeContent", "check_complete"]

# Source: at 100 MiB/s a connection 128 KiB take 1.25 ms, little beside a first byte after 20 ms, and hold a zip file's
# directory or an image's header.
_FIRST_WINDOW_BYTES: Final = 128 * KIB
# Source: ``StoreConfig.part_size_bytes``' default; a longer range would be split into parts again.
_LARGEST_WINDOW_BYTES: Final = 8 * MIB


class Content(Protocol):
    """Random access to the bytes of one version of one object. Not for use by several threads at once."""

    @property
    def size_bytes(self) -> int:
        """The object's size; may cost a request where it is not known yet."""
        ...

    def read(self, start: int, stop: int | None) -> bytes | bytearray | memoryview:
        """The bytes ``[start, stop)``, shorter only at the object's end; a ``stop`` of None means the end."""
        ...

    def read_into(self, start: int, target: memoryview) -> int:
        """Fill ``target`` with the bytes from ``start`` on; return how many there were."""
        ...

    def available(self, start: int) -> memoryview:
        """The bytes from ``start`` on that are in memory, fetching some where there are none; empty only at the end."""
        ...

    def close(self) -> None:
        """Let go of the memory and of requests under way."""
        ...


def check_complete(data: ObjectData, uri: str, *, start: int = 0, stop: int | None = None) -> None:
    """Raise ``TruncatedError`` unless a store has answered a read with what was asked for, up to the object's end."""
    size_bytes = data.info.size_bytes
    expected = max(0, (size_bytes if stop is None else min(stop, size_bytes)) - start)
    if data.start != start or len(data.data) != expected:
        raise TruncatedError(
            f"{uri}: the store answered a read of {expected} bytes from {start} with {len(data.data)} bytes from "
            f"{data.start}; this is a fault of the store, please report it",
            operation="read",
            uri=uri,
        )


class WholeContent:
    """A body that was fetched before: no method waits for anything."""

    def __init__(self, data: bytes | bytearray | memoryview) -> None:
        self._body = data
        self._view = memoryview(data)

    @property
    def size_bytes(self) -> int:
        return len(self._view)

    def read(self, start: int, stop: int | None) -> bytes | bytearray | memoryview:
        size = len(self._view)
        if start == 0 and (stop is None or stop >= size):
            return self._body  # the body itself: no copy where it is `bytes` already
        return self._view[start:stop]

    def read_into(self, start: int, target: memoryview) -> int:
        piece = self._view[start : start + len(target)]
        target[: len(piece)] = piece
        return len(piece)

    def available(self, start: int) -> memoryview:
        return self._view[start:]

    def close(self) -> None:
        self._body = b""
        self._view = memoryview(b"")


class RangedContent:
    """An object read range by range, all of the version that the first request saw.

    Keeps the window of bytes that was fetched last and, while the reads are sequential, the request for the next one.
    After a jump, and at the start, a window is short; every further one that continues the one before is twice as long,
    up to a bound. A reader therefore holds at most two windows, apart from what one call asks for. After a fork a child
    drops the request that its parent had under way, because the answer arrives in the parent.

    Args:
        store: where the object is.
        key: its key.
        size_bytes: its size, where a listing told it; None costs a request when it is first needed.
        version: read this version or fail; None means the one that the first request sees.
        first_window_bytes: what is fetched after a jump where less was asked for.
        largest_window_bytes: bound on a window.
    """

    def __init__(
        self,
        store: Store,
        key: str,
        *,
        size_bytes: int | None,
        version: str | None = None,
        first_window_bytes: int = _FIRST_WINDOW_BYTES,
        largest_window_bytes: int = _LARGEST_WINDOW_BYTES,
    ) -> None:
        self._store = store
        self._key = key
        self._size_bytes = size_bytes
        self._version = version
        self._first_window_bytes = first_window_bytes
        self._largest_window_bytes = largest_window_bytes
        self._window_start = 0
        self._window = memoryview(b"")
        self._fetched_stop = -1  # a read that begins where the last one ended is sequential
        self._next_range = (0, 0)
        self._next: Future[ObjectData] | None = None
        self._pid = os.getpid()

    @property
    def size_bytes(self) -> int:
        if self._size_bytes is None:
            info = self._store.head(self._key)
            check_same(self._uri, info, size_bytes=None, version=self._version)
            self._size_bytes, self._version = info.size_bytes, info.version
        return self._size_bytes

    def read(self, start: int, stop: int | None) -> bytes | bytearray | memoryview:
        found = self._in_window(start, stop)
        if self._at_end(start + len(found)) or (stop is not None and len(found) == stop - start):
            return found
        if self._size_bytes is None and start == 0:
            # The size arrives with the first bytes, so a read from the start needs no request to learn it.
            if stop is None or self._is_large(stop):
                return self._fetch(0, stop).data
        else:
            stop = self.size_bytes if stop is None else min(stop, self.size_bytes)
        length = stop - start
        data, memory = writable_bytes(max(2, length))
        filled = self.read_into(start, memory[:length])
        return data if filled == len(data) else data[:filled]

    def read_into(self, start: int, target: memoryview) -> int:
        filled = 0
        while filled < len(target):
            position = start + filled
            found = self._in_window(position, start + len(target))
            if found:
                target[filled : filled + len(found)] = found
                filled += len(found)
            elif self._at_end(position):
                break
            elif self._is_large(len(target) - filled) and not self._is_next(position):
                filled += len(self._fetch(position, start + len(target), into=target[filled:]).data)
            else:
                self._advance(position, len(target) - filled)
        return filled

    def available(self, start: int) -> memoryview:
        if not self._in_window(start, None) and not self._at_end(start):
            self._advance(start, 1)
        return self._in_window(start, None)

    def close(self) -> None:
        self._drop_next()
        self._window = memoryview(b"")

    def _in_window(self, start: int, stop: int | None) -> memoryview:
        """The part of ``[start, stop)`` that the window holds from ``start`` on; empty where it does not hold that."""
        offset = start - self._window_start
        if not 0 <= offset < len(self._window):
            return memoryview(b"")
        return self._window[offset : None if stop is None else stop - self._window_start]

    def _at_end(self, position: int) -> bool:
        return (position > 0 or self._size_bytes is not None) and position >= self.size_bytes

    def _is_large(self, length_bytes: int) -> bool:
        """Whether a range goes to the store as it is, to be split into parallel parts, and past the window."""
        return length_bytes >= self._largest_window_bytes

    def _is_next(self, position: int) -> bool:
        return self._next is not None and self._next_range[0] == position and self._pid == os.getpid()

    def _advance(self, position: int, wanted_bytes: int) -> None:
        """Move the window to ``position``, which it does not hold and which is before the end."""
        sequential = position == self._fetched_stop
        if self._next is not None and self._is_next(position):
            pending, self._next = self._next, None
            data = self._received(pending, *self._next_range)
        else:
            ahead = self._next_window_bytes() if sequential else self._first_window_bytes
            self._window = memoryview(b"")  # freed before the next one arrives
            data = self._fetch(position, position + max(wanted_bytes, ahead))
        self._window_start, self._window = position, memoryview(data.data).toreadonly()
        stop = self._fetched_stop = position + len(self._window)
        if sequential and not self._is_large(wanted_bytes) and not self._at_end(stop):
            self._next_range = (stop, stop + self._next_window_bytes())
            self._next = self._submit(*self._next_range)

    def _next_window_bytes(self) -> int:
        return min(max(2 * len(self._window), self._first_window_bytes), self._largest_window_bytes)

    def _submit(self, start: int, stop: int | None, into: memoryview | None = None) -> Future[ObjectData]:
        return self._store.submit_read(
            Read(key=self._key, start=start, stop=stop, into=into, size_bytes=self._size_bytes, version=self._version)
        )

    def _fetch(self, start: int, stop: int | None, into: memoryview | None = None) -> ObjectData:
        self._drop_next()
        data = self._received(self._submit(start, stop, into), start, stop)
        self._fetched_stop = start + len(data.data)
        return data

    def _received(self, pending: Future[ObjectData], start: int, stop: int | None) -> ObjectData:
        """Wait for a range, pin its version, and refuse one that is shorter than asked for."""
        try:
            data = pending.result()
        except BaseException:
            pending.cancel()  # an interrupted wait leaves no request behind
            raise
        self._size_bytes, self._version = data.info.size_bytes, data.info.version
        check_complete(data, self._uri, start=start, stop=stop)
        return data

    @property
    def _uri(self) -> str:
        return f"{self._store.uri.removesuffix('/')}/{self._key}"

    def _drop_next(self) -> None:
        if self._next is not None and self._pid == os.getpid():
            self._next.cancel()
        self._next = None
        self._pid = os.getpid()
