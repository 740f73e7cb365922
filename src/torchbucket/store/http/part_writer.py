"""A streamed write in parts, several of which are on their way while the caller goes on writing."""

from __future__ import annotations

import logging
import os
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, wait
from functools import partial
from typing import Any, Final

from torchbucket.config import StoreConfig
from torchbucket.errors import StoreError
from torchbucket.store.conditions import Condition
from torchbucket.store.http.checksums import Algorithm, Checksum
from torchbucket.store.http.dialect import Dialect
from torchbucket.store.http.memory_budget import CHUNK_BYTES, MemoryShare, writers_memory
from torchbucket.store.http.part_upload import PartUpload
from torchbucket.store.http.whole_write import COPY_PART_BYTES, part_bytes_of
from torchbucket.store.protocol import ObjectData, ObjectInfo, Read
from torchbucket.store.transport.body import Body
from torchbucket.store.transport.transport import Transport
from torchbucket.store.writer import BaseWriter

__all__ = ["PartWriter", "abort_open_writers", "part_size_bytes"]

_log = logging.getLogger("torchbucket.uploads")

# The size of a part doubles after so many. With parts of 5 MiB, the least, 10,000 parts hold 8.4 TiB, and those of
# 8 MiB stay below 128 MiB up to 105 GiB. Source: arithmetic on S3's limits, see `part_size_bytes`.
_PARTS_BEFORE_GROWTH: Final = 900

# The first memory of a writer of which nobody said how much it will write.
_FIRST_CHUNK_BYTES: Final = 64 << 10

# What is copied is summed at once, in steps that fit into the second-level cache: 0.136 s a GiB for copy and CRC
# together, with steps from 64 KiB to 1 MiB 0.148 to 0.144, and 0.182 with a pass for each over 8 MiB. Source: measured.
_SUMMED_BYTES: Final = 256 << 10

# What is read ahead of a range that the server does not copy, in parts.
_READS_AHEAD: Final = 4

_EXIT_TIMEOUT_S: Final = 5.0

_open_writers: dict[int, weakref.ref[PartWriter]] = {}


def part_size_bytes(first_bytes: int, number: int, most_bytes: int) -> int:
    """The size of the part ``number`` (from 1) of an object whose size nobody knows yet.

    It doubles every 900 parts, so that 10,000 parts hold any object that S3 takes (5 TiB), and is never above
    ``most_bytes``: what the provider takes and the memory allows. *Source:* S3 user guide, "Multipart upload limits".
    """
    return min(most_bytes, first_bytes << ((number - 1) // _PARTS_BEFORE_GROWTH))


class PartWriter(BaseWriter):
    """Copies what is written into memory of its own and uploads each part as soon as it is full.

    An object below one part is one plain request. An upload is aborted on any failure, when the writer is collected
    without having been closed, and at the interpreter's exit.

    Args:
        transport: runs the requests.
        dialect: makes them.
        config: length of a part and memory budget; where that leaves no memory for a whole part, a smaller one is sent.
        key: the object's key.
        condition: what must hold of the key.
        size_hint: the object's size in bytes, if the caller has an idea of it.
        read: begins a read of an object of the same store.

    Raises:
        StoreError: the budget is too small for the writers that are open, or for a part of so large an object.
    """

    def __init__(
        self,
        transport: Transport,
        dialect: Dialect,
        config: StoreConfig,
        key: str,
        *,
        condition: Condition | None,
        size_hint: int | None,
        read: Callable[[Read], Future[ObjectData]],
    ) -> None:
        self._transport = transport
        self._dialect = dialect
        self._key = key
        self._condition = condition
        self._size_hint = size_hint
        self._read = read
        self._read_bytes = config.part_size_bytes
        promised_bytes = self._least_part_bytes = dialect.least_part_bytes
        if size_hint is not None:
            self._least_part_bytes = part_bytes_of(size_hint, promised_bytes, dialect.most_parts)
            promised_bytes = min(size_hint, self._least_part_bytes)
        self._first_part_bytes = max(config.part_size_bytes, promised_bytes)
        # Half of the budget, so that other writers find room while a part is filled.
        self._most_part_bytes = min(
            dialect.largest_part_bytes, max(promised_bytes, dialect.least_part_bytes, config.memory_budget_bytes // 2)
        )
        self._share = writers_memory.open_share(dialect.address(key), promised_bytes, config.memory_budget_bytes)
        self._part = _Part(dialect.upload_sum)
        self._sent_bytes = 0
        self._upload = PartUpload(transport, dialect, key, condition, most_pending=dialect.most_parts)
        super().__init__(dialect.address(key))
        _open_writers[id(self)] = weakref.ref(self)

    def _write(self, view: memoryview) -> None:
        position = 0
        while position < len(view):
            if self._part.free_bytes:
                position += self._part.fill(view[position : position + _SUMMED_BYTES])
            elif not self._lengthen_part():
                # Only now: a full part that no byte follows is the whole object, and needs no upload.
                self._send()

    def _write_range(self, source: ObjectInfo, start: int, stop: int) -> None:
        if self._dialect.copies_parts:
            start = self._copy_parts(source, start, stop)
        self._carry(source, start, stop)

    def _copy_parts(self, source: ObjectInfo, start: int, stop: int) -> int:
        """Have the server take as much of a range as its bounds on parts allow; return where what is left begins."""
        least = self._least_copy_bytes()
        carried = max(0, least - self._part.size_bytes) if self._part.size_bytes else 0
        if stop - start - carried < least:
            return start
        self._carry(source, start, start + carried)
        start += carried
        if 0 < self._part.size_bytes < self._dialect.least_part_bytes:
            return start  # for want of memory, an earlier part was sent before it was full
        if self._part.size_bytes:
            self._send()
        while stop - start >= (least := self._least_copy_bytes()):
            count = -(-(stop - start) // max(least, COPY_PART_BYTES))
            length = max(least, -(-(stop - start) // count))
            self._upload.send_copy(source, start, min(stop, start + length))
            self._sent_bytes += min(stop, start + length) - start
            start = min(stop, start + length)
        return start

    def _least_copy_bytes(self) -> int:
        """The least part that goes with a copy: with all above it, and those growing, no object needs too many."""
        return part_size_bytes(self._least_part_bytes, self._upload.count + 1, self._dialect.largest_part_bytes)

    def _carry(self, source: ObjectInfo, start: int, stop: int) -> None:
        """Read a range and write it, with a few reads ahead."""
        starts = iter(range(start, stop, self._read_bytes))
        reads: deque[Future[ObjectData]] = deque()
        try:
            while True:
                while len(reads) < _READS_AHEAD and (first := next(starts, None)) is not None:
                    last = min(first + self._read_bytes, stop)
                    size, version = source.size_bytes, source.version
                    read = Read(key=source.key, start=first, stop=last, size_bytes=size, version=version)
                    reads.append(self._read(read))
                if not reads:
                    return
                self._write(memoryview(reads.popleft().result().data))
        finally:
            for left in reads:
                left.cancel()

    def _lengthen_part(self) -> bool:
        """Give the part more memory; False where it is to be sent: it is full, or no memory is left.

        Raises:
            StoreError: no memory is left, and the part is too small to be sent.
        """
        part, upload = self._part, self._upload
        part_bytes = part_size_bytes(self._first_part_bytes, upload.count + 1, self._most_part_bytes)
        if part.size_bytes >= part_bytes:
            return False
        written_bytes = self._sent_bytes + part.size_bytes
        expected_bytes = (self._size_hint or 0) - written_bytes
        if expected_bytes <= 0:
            expected_bytes = max(written_bytes, _FIRST_CHUNK_BYTES)  # twice as much as there is
        wanted_bytes = min(expected_bytes, CHUNK_BYTES, part_bytes - part.size_bytes)
        while (chunk := self._share.take(wanted_bytes)) is None and (pending := upload.pending):
            upload.wait_for_room(pending)
        # What came back between the two questions of the loop is there now.
        if chunk is None and (chunk := self._share.take(wanted_bytes)) is None:
            if part.size_bytes < self._dialect.least_part_bytes:
                raise StoreError(
                    f"write {self._uri}: more is written than the size_hint of {self._size_hint} bytes, and the "
                    "writers that are open hold all of StoreConfig.memory_budget_bytes: raise it, or give a larger "
                    "hint or none",
                    operation="write",
                    uri=self._uri,
                )
            return False
        part.lengthen(chunk)
        return True

    def _send(self) -> None:
        """Hand the part to the upload; its memory comes back when it has arrived or failed."""
        part, self._part = self._part, _Part(self._dialect.upload_sum)
        self._sent_bytes += part.size_bytes
        # Nothing of a part on its way leads back to the writer: one that is forgotten is collected at once, and aborts.
        body, checksum, give_back = part.body(), part.checksum(), partial(part.give_back, self._share, sent=True)
        self._share.sent(part.chunks)
        try:
            self._upload.send(body, checksum, give_back)
        except BaseException:
            give_back()  # which an interrupt may have brought about already
            raise

    def _publish(self) -> ObjectInfo:
        part = self._part
        if not self._upload.count:
            info = self._transport.run(
                self._dialect.put_object(self._key, part.body(), part.checksum(), condition=self._condition)
            )
        else:
            if part.size_bytes:
                self._send()
            info = self._upload.complete()
        self._release()
        return info

    def _discard(self) -> None:
        try:
            self._upload.abort()
        finally:
            self._release()

    def _discard_unclosed(self) -> None:
        # A destructor must not wait: the abort is handed over, and the parts on their way are cut.
        self.abort_soon()

    def abort_soon(self) -> list[Future[Any]]:
        """Give the write up without waiting; return what may be waited for."""
        self._aborted = True
        try:
            return self._upload.abort_soon()
        finally:
            self._release()

    def _release(self) -> None:
        self._part.give_back(self._share)
        self._share.close()
        _open_writers.pop(id(self), None)


class _Part:
    """Bytes gathered in pieces of memory, and their checksum, which is made while they are copied."""

    def __init__(self, algorithm: Algorithm) -> None:
        self._algorithm = algorithm
        self._value = 0
        self._summed = 0  # how much of the last piece the checksum covers
        self._filled = 0  # how much of it is filled
        self.chunks: list[bytearray] = []
        self.size_bytes = 0

    @property
    def free_bytes(self) -> int:
        """How much more fits."""
        return len(self.chunks[-1]) - self._filled if self.chunks else 0

    def lengthen(self, chunk: bytearray) -> None:
        """Add memory, once what there is is full."""
        self._sum()
        self.chunks.append(chunk)
        self._summed = self._filled = 0

    def fill(self, view: memoryview) -> int:
        """Copy as much as fits, and return how much that was."""
        taken = view[: self.free_bytes]
        stop = self._filled + len(taken)
        self.chunks[-1][self._filled : stop] = taken
        self._filled = stop
        self.size_bytes += len(taken)
        if stop - self._summed >= _SUMMED_BYTES:
            self._sum()
        return len(taken)

    def _sum(self) -> None:
        if self._summed < self._filled:
            fresh = memoryview(self.chunks[-1])[self._summed : self._filled]
            self._value = self._algorithm.compute(fresh, self._value)
            self._summed = self._filled

    def body(self) -> Body:
        """The bytes, to be sent."""
        whole = [memoryview(chunk) for chunk in self.chunks[:-1]]
        return Body([*whole, *(memoryview(chunk)[: self._filled] for chunk in self.chunks[-1:])])

    def checksum(self) -> Checksum:
        """Their checksum."""
        self._sum()
        return Checksum(self._algorithm, self._value)

    def give_back(self, share: MemoryShare, *, sent: bool = False) -> None:
        """Give the memory back; ``sent`` if it was on its way. A second call has nothing to give."""
        chunks, self.chunks = self.chunks, []
        share.give_back(chunks, sent=sent)


def abort_open_writers() -> None:
    """Abort the uploads of writers that nobody closed, at the interpreter's exit: all at once, for some seconds."""
    aborts = []
    for reference in list(_open_writers.values()):
        writer = reference()
        if writer is not None and writer._pid == os.getpid():
            try:
                aborts += writer.abort_soon()
            except RuntimeError as error:  # such as no thread left; the others are aborted nevertheless
                _log.warning("the write to %s was given up and may have left something behind: %s", writer.name, error)
    wait(aborts, timeout=_EXIT_TIMEOUT_S)
