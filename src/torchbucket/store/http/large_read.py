"""A read in several ranges at once, all of one version, straight into one piece of memory."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import CancelledError, Future
from functools import partial
from typing import Any

from torchbucket.errors import ChecksumError, ObjectChangedError
from torchbucket.store.base import fit
from torchbucket.store.http.checksums import Checksum
from torchbucket.store.http.dialect import Dialect
from torchbucket.store.http.landing import landing
from torchbucket.store.http.part_sums import ChecksumQuery, PartSums
from torchbucket.store.http.range_read import RangeRead
from torchbucket.store.protocol import ObjectData, ObjectInfo
from torchbucket.store.transport.operation import Operation, StoreFuture
from torchbucket.store.transport.transport import Transport

__all__ = ["LargeRead"]


class _LargeFuture(StoreFuture[ObjectData]):
    """The future of the whole; cancelling it cuts the ranges, and it is done when none writes to memory any more."""

    def __init__(self, read: LargeRead) -> None:
        super().__init__()
        self._read: LargeRead | None = read
        self.set_running_or_notify_cancel()

    def cancel(self) -> bool:
        """Give the read up; False, as for all that has begun: ``result`` raises ``CancelledError`` at its end."""
        read = self._read
        if read is not None:
            read.give_up(CancelledError())
        return False

    def release(self) -> None:
        """Let go of the read, which points back here."""
        self._read = None


class LargeRead:
    """Splits a range into parts that are fetched in parallel, and checks a whole object that was read so.

    Where the size is unknown, the first part is fetched alone and tells it. Parts that start before any version is
    known are compared afterwards; the others are pinned by their request. Of a whole object the checksums of the parts,
    summed where they landed, make the one that the provider keeps; where they do not, parts are fetched again: all of
    them, then those that came differently the time before, until the object is right or comes the same way twice. All
    but the constructor, ``begin`` and ``give_up`` runs on the transport's thread.

    Args:
        transport: runs the requests.
        dialect: builds them.
        key: the object's key.
        start: first byte.
        stop: end of the range, or None for the object's.
        target: flat writable memory, at least as long as what the range holds, or None.
        size_bytes: the size that the object must have, or None.
        version: the version that the object must have, or None.
        part_size_bytes: length of a part.
        most_fetches: how often a part is fetched where the checksum is wrong.
    """

    def __init__(
        self,
        transport: Transport,
        dialect: Dialect,
        key: str,
        *,
        start: int,
        stop: int | None,
        target: memoryview | None,
        size_bytes: int | None,
        version: str | None,
        part_size_bytes: int,
        most_fetches: int,
    ) -> None:
        self._transport = transport
        self._dialect = dialect
        self._key = key
        self._start = start
        self._stop = stop
        self._target = target
        self._size_bytes = size_bytes
        self._version = version
        self._part_size_bytes = part_size_bytes
        self._data: bytes | None = None  # what the buffer is of, where there is no target
        self._buffer: memoryview | None = None
        self._info: ObjectInfo | None = None
        self._operations: list[Operation[Any]] = []
        self._left = 0
        self._error: BaseException | None = None
        self._checksum: Checksum | None = None
        # Whether it is to be asked for, because ranges do not tell it.
        self._ask = dialect.verifies and not dialect.ranges_tell_checksum
        self._sums = PartSums(most_fetches)
        self.future = _LargeFuture(self)

    def begin(self) -> Future[ObjectData]:
        """Hand the first requests to the transport."""
        if self._size_bytes is not None:
            self._spread(self._start, self._size_bytes)
        else:
            first_stop = self._start + self._part_size_bytes
            if self._stop is not None:
                first_stop = min(first_stop, self._stop)
            # Asked for without a range, an object tells its checksum, and a small one is all there.
            whole = self._start == 0 and self._stop is None and self._ask
            self._ask = self._ask and not whole
            first = self._range(self._start, first_stop, self._target, whole=whole)
            self._operations.append(first)
            first.future.add_done_callback(self._first_done)
            self._transport.submit((first,))
        return self.future

    def give_up(self, error: BaseException) -> None:
        """Fail with ``error`` as soon as no range is on the way any more."""
        if self._error is None:
            self._error = error
        self._transport.drop(self._operations)

    def _learn(self, checksum: Checksum) -> None:
        self._checksum = checksum

    def _range(self, start: int, stop: int, target: memoryview | None, *, whole: bool = False) -> RangeRead:
        return RangeRead(
            self._dialect,
            self._key,
            start=start,
            stop=stop,
            target=target,
            size_bytes=self._size_bytes,
            version=self._version,
            whole=whole,
            told=self._learn,
        )

    def _first_done(self, done: Future[ObjectData]) -> None:
        error = self._error or done.exception()
        if error is not None:
            self._end(error)
            return
        first = done.result()
        info = first.info
        stop = info.size_bytes if self._stop is None else min(self._stop, info.size_bytes)
        if self._start + len(first.data) >= stop:
            self._end(None, first)
            return
        self._info, self._version, self._size_bytes = info, info.version, info.size_bytes
        try:
            self._spread(self._start + len(first.data), info.size_bytes, bytes_before=first.data)
        except Exception as failure:  # noqa: BLE001  # out of memory, or a target too short
            self._end(failure)

    def _spread(self, start: int, size_bytes: int, bytes_before: bytes | bytearray | memoryview = b"") -> None:
        """Split the bytes from ``start`` into parts and hand them over together."""
        stop = size_bytes if self._stop is None else min(self._stop, size_bytes)
        length = stop - self._start
        if self._target is None:
            self._data, self._buffer = landing(length)
            self._buffer[: len(bytes_before)] = bytes_before
        else:
            self._buffer = fit(self._target, length)
        if self._start == 0 and stop == size_bytes and self._dialect.verifies:
            self._sums.expect(range(0, stop, self._part_size_bytes), stop)
        self._fetch(range(start, stop, self._part_size_bytes))

    def _fetch(self, starts: Sequence[int]) -> None:
        """Fetch the parts that begin there and, where it is needed and was not asked for yet, the checksum."""
        assert self._buffer is not None
        whole = self._buffer
        stop = self._start + len(whole)
        parts: list[Operation[Any]] = []
        for first in starts:
            last = min(first + self._part_size_bytes, stop)
            part = self._range(first, last, whole[first - self._start : last - self._start])
            part.future.add_done_callback(partial(self._part_done, first))
            parts.append(part)
        if self._ask and self._sums.expected:
            self._ask = False
            query = ChecksumQuery(self._dialect, self._key, version=self._version)
            query.future.add_done_callback(self._asked)
            parts.insert(0, query)  # Known early, it lets each part be summed as it arrives.
        self._operations, self._left = parts, len(parts)
        self._transport.submit(parts)

    def _part_done(self, first: int, done: Future[ObjectData]) -> None:
        self._left -= 1
        error = done.exception()
        if error is None:
            self._compare(done.result().info)
            self._sums.arrived(first, done.result().data, self._checksum)
        elif self._error is None:
            self.give_up(error)
        self._settle()

    def _asked(self, done: Future[tuple[ObjectInfo, Checksum | None]]) -> None:
        self._left -= 1
        error = done.exception()
        if error is None:
            info, self._checksum = done.result()
            self._compare(info)
        elif self._error is None:
            self.give_up(error)
        self._settle()

    def _settle(self) -> None:
        """Where nothing is on the way any more, end, or fetch again what may be damaged."""
        if self._left:
            return
        if self._error is not None:
            self._end(self._error)
            return
        assert self._info is not None and self._buffer is not None
        if self._checksum is not None and self._sums.expected:
            try:
                suspects = self._sums.suspects(self._checksum, self._buffer, self._dialect.address(self._key))
            except ChecksumError as error:
                self._end(error)
                return
            if suspects:
                self._version = self._info.version
                self._fetch(suspects)
                return
        data = self._buffer if self._data is None else self._data
        self._end(None, ObjectData(info=self._info, start=self._start, data=data))

    def _compare(self, info: ObjectInfo) -> None:
        if self._info is None:
            self._info, self._version = info, info.version
            for operation in self._operations:
                if isinstance(operation, RangeRead) and operation.version is None:
                    operation.version = info.version
        elif info.version != self._info.version and self._error is None:
            uri = self._dialect.address(self._key)
            self.give_up(
                ObjectChangedError(
                    f"get_object {uri}: one range has the version {self._info.version}, another {info.version}: the "
                    "object was overwritten while it was read; read it again",
                    operation="get_object",
                    uri=uri,
                )
            )

    def _end(self, error: BaseException | None, data: ObjectData | None = None) -> None:
        self._operations, self._data, self._buffer = [], None, None
        self.future.release()
        if error is not None:
            self.future.set_exception(error)
        else:
            assert data is not None
            self.future.set_result(data)
