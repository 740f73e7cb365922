"""A read of more than one part, into one piece of memory."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import replace

from torchbucket.store.arguments import first_bytes
from torchbucket.store.http.dialect import Dialect
from torchbucket.store.http.parallel_read import ParallelRead
from torchbucket.store.http.range_read import RangeRead
from torchbucket.store.protocol import ObjectData, ObjectInfo, Read
from torchbucket.store.scatter import plan_parts
from torchbucket.store.transport.transport import Transport
from torchbucket.store.writable_bytes import writable_bytes

__all__ = ["LargeRead"]


class LargeRead(ParallelRead[ObjectData]):
    """Splits a range into parts; where the object's size is unknown, the first is fetched alone and tells it.

    Args:
        transport: runs the requests.
        dialect: builds them.
        read: what to read.
        part_bytes: length of a part.
        most_fetches: how often a part is fetched where the checksum is wrong.
    """

    def __init__(
        self, transport: Transport, dialect: Dialect, read: Read, *, part_bytes: int, most_fetches: int
    ) -> None:
        super().__init__(transport, dialect, read, most_fetches=most_fetches)
        self._part_bytes = part_bytes
        self._data: bytes | bytearray | memoryview = b""

    def begin(self) -> Future[ObjectData]:
        read = self._read
        if read.size_bytes is not None:
            self._spread(read.size_bytes, b"")
            return self._future
        first_stop = read.start + self._part_bytes
        if read.stop is not None:
            first_stop = min(first_stop, read.stop)
        # Asked for without a range, an object tells its checksum, and a small one is all there.
        whole = read.start == 0 and read.stop is None and self._ask
        self._ask = self._ask and not whole
        first = RangeRead(self._dialect, replace(read, stop=first_stop), whole=whole, learn=self._learn)
        self._operations = [first]
        first.future.add_done_callback(self._first_done)
        self._transport.submit((first,))
        return self._future

    def _first_done(self, done: Future[ObjectData]) -> None:
        self._error = self._error or done.exception()
        if self._error is None:
            first = done.result()
            self._compare(first.info)
            self._size_bytes = first.info.size_bytes
            if len(first.data) < self._read.length_in(self._size_bytes):
                try:
                    self._spread(self._size_bytes, first.data)
                    return
                except Exception as error:  # noqa: BLE001  # out of memory, or a target too short
                    self._error = error
            self._data = first.data
        self._end()

    def _spread(self, size_bytes: int, first: bytes | bytearray | memoryview) -> None:
        """Fetch the parts that follow the ``first`` one, all at the same time."""
        length = self._read.length_in(size_bytes)
        if self._read.into is None:
            self._data, memory = writable_bytes(length)
            memory[: len(first)] = first
        else:
            self._data = memory = first_bytes(self._read.into, length)
        parts = plan_parts([(self._read.start, memory)], gap_bytes=0, part_bytes=self._part_bytes)
        self._fetch_all(parts, size_bytes=size_bytes, present=len(first) // self._part_bytes)

    def _result(self, info: ObjectInfo) -> ObjectData:
        return ObjectData(info=info, start=self._read.start, data=self._data)
