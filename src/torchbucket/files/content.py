"""Where an object reader's bytes come from: a body that is there already, or ranges fetched as they are needed."""

from __future__ import annotations

import os
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final, Protocol

from torchbucket.config import KIB, MIB
from torchbucket.errors import TruncatedError
from torchbucket.store.base import check_same
from torchbucket.store.protocol import ObjectData, Read, Store, address_in
from torchbucket.store.writable_bytes import writable_bytes

__all__ = ["Content", "RangedContent", "WholeContent", "check_complete"]

# Source: at 100 MiB/s a connection 128 KiB take 1.25 ms, little beside a first byte after 20 ms, and hold a zip file's
# directory or an image's header.
_FIRST_WINDOW_BYTES: Final = 128 * KIB
# Source: at 100 MiB/s a connection 4 MiB take 40 ms, twice the wait for a first byte of 20 ms; with seven more under
# way one reader gets 500 MiB/s, for 32 MiB of memory.
_LARGEST_WINDOW_BYTES: Final = 4 * MIB
_MOST_AHEAD: Final = 7


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


@dataclass(frozen=True, slots=True, eq=False)
class _Ahead:
    """A request for ``[start, stop)`` that is under way."""

    start: int
    stop: int
    future: Future[ObjectData]


class RangedContent:
    """An object read range by range, all of the version that the first request saw.

    Keeps the window of bytes that was fetched last and, while the reads go on from one another, the requests for those
    that follow it. After a jump, and at the start, a window is short; every further one is twice as long, up to a
    bound, and then more and more of them are under way at once. Nothing is asked for ahead that is longer than what was
    read so far, so a reader who stops early has wasted no more than that. A read that is longer than any window goes
    past it, straight into the caller's memory. After a fork a child forgets the requests that its parent had under way,
    because their answers arrive in the parent.

    Args:
        store: where the object is.
        key: its key.
        size_bytes: its size, where a listing told it; None costs a request when it is first needed.
        version: read this version or fail; None means the one that the first request sees.
        first_window_bytes: what is fetched after a jump where less was asked for; a place that far beyond the last
            fetched byte is no jump.
        largest_window_bytes: bound on a window.
        most_ahead: bound on the windows that are under way.
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
        most_ahead: int = _MOST_AHEAD,
    ) -> None:
        self._store = store
        self._key = key
        self._size_bytes = size_bytes
        self._version = version
        self._first_window_bytes = first_window_bytes
        self._largest_window_bytes = largest_window_bytes
        self._most_ahead = most_ahead
        self._window_start = 0
        self._window = memoryview(b"")
        self._fetched_stop: int | None = None
        self._last_bytes = 0  # the length of what was fetched last
        self._run_bytes = 0  # what was fetched since the last jump
        self._ahead: deque[_Ahead] = deque()
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
            elif self._is_large(len(target) - filled) and not self._is_ahead(position):
                filled += len(self._fetch(position, start + len(target), into=target[filled:]).data)
            else:
                self._advance(position, len(target) - filled)
        return filled

    def available(self, start: int) -> memoryview:
        if not self._in_window(start, None) and not self._at_end(start):
            self._advance(start, 1)
        return self._in_window(start, None)

    def close(self) -> None:
        self._drop_ahead()
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
        """Whether a range goes to the store as it is, past the window."""
        return length_bytes >= self._largest_window_bytes

    def _is_ahead(self, position: int) -> bool:
        """Whether ``position`` is in a range that is under way."""
        if self._pid != os.getpid():
            self._drop_ahead()
        return bool(self._ahead) and self._ahead[0].start <= position < self._ahead[-1].stop

    def _continues(self, position: int) -> bool:
        """Whether a read at ``position``, which is not in memory, goes on from the last one."""
        if self._fetched_stop is None:
            return False
        return self._fetched_stop <= position <= self._fetched_stop + self._first_window_bytes

    def _advance(self, position: int, wanted_bytes: int) -> None:
        """Move the window to ``position``, which it does not hold and which is before the end."""
        if self._is_ahead(position):
            sequential = True
            while self._ahead[0].stop <= position:
                self._ahead.popleft().future.cancel()
            ahead = self._ahead.popleft()
            start, data = ahead.start, self._received(ahead.future, ahead.start, ahead.stop)
        else:
            sequential = self._continues(position)
            self._window = memoryview(b"")  # freed before the next one arrives
            window_bytes = self._next_window_bytes() if sequential else self._first_window_bytes
            start, data = position, self._submitted(position, position + max(wanted_bytes, window_bytes))
        self._window_start, self._window = start, memoryview(data.data).toreadonly()
        self._note(start + len(self._window), len(self._window), sequential=sequential)
        if sequential and not self._is_large(wanted_bytes):
            self._ask_ahead()

    def _fetch(self, start: int, stop: int | None, into: memoryview | None = None) -> ObjectData:
        """Fetch a range past the window and, where it goes on from the last one, ask for what follows meanwhile."""
        sequential = self._continues(start)
        self._drop_ahead()
        future = self._submit(start, stop, into)
        if sequential and stop is not None and self._size_bytes is not None:
            self._note(min(stop, self._size_bytes), stop - start, sequential=True)
            self._ask_ahead()
            return self._received(future, start, stop)
        data = self._received(future, start, stop)
        self._note(start + len(data.data), len(data.data), sequential=sequential)
        return data

    def _submitted(self, start: int, stop: int) -> ObjectData:
        self._drop_ahead()
        return self._received(self._submit(start, stop), start, stop)

    def _note(self, stop: int, length_bytes: int, *, sequential: bool) -> None:
        """Remember what was fetched last."""
        self._fetched_stop, self._last_bytes = stop, length_bytes
        self._run_bytes = length_bytes + (self._run_bytes if sequential else 0)

    def _ask_ahead(self) -> None:
        """Have as many windows under way as what was read so far is worth."""
        most = max(1, min(self._run_bytes // self._largest_window_bytes, self._most_ahead))
        while len(self._ahead) < most:
            start = self._ahead[-1].stop if self._ahead else self._fetched_stop
            assert start is not None
            if self._at_end(start):
                break
            stop = min(start + self._next_window_bytes(), self.size_bytes)
            self._ahead.append(_Ahead(start, stop, self._submit(start, stop)))

    def _next_window_bytes(self) -> int:
        return min(max(2 * self._last_bytes, self._first_window_bytes), self._largest_window_bytes)

    def _submit(self, start: int, stop: int | None, into: memoryview | None = None) -> Future[ObjectData]:
        return self._store.submit_read(
            Read(key=self._key, start=start, stop=stop, into=into, size_bytes=self._size_bytes, version=self._version)
        )

    def _received(self, pending: Future[ObjectData], start: int, stop: int | None) -> ObjectData:
        """Wait for a range, pin its version, and refuse one that is shorter than asked for."""
        try:
            data = pending.result()
        except BaseException:
            pending.cancel()  # an interrupted wait leaves no request behind
            self._drop_ahead()
            self._fetched_stop = None
            raise
        self._size_bytes, self._version = data.info.size_bytes, data.info.version
        check_complete(data, self._uri, start=start, stop=stop)
        return data

    @property
    def _uri(self) -> str:
        return address_in(self._store, self._key)

    def _drop_ahead(self) -> None:
        if self._pid == os.getpid():
            for ahead in self._ahead:
                ahead.future.cancel()
        self._ahead.clear()
        self._pid = os.getpid()
