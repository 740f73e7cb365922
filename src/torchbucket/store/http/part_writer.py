"""A streamed write in parts, several of which are on their way while the caller goes on writing."""

from __future__ import annotations

import os
import weakref
from typing import Final

from torchbucket.errors import StoreError
from torchbucket.store.base import BaseWriter
from torchbucket.store.conditions import Condition
from torchbucket.store.http.dialect import Dialect
from torchbucket.store.http.part_buffers import PartBuffers
from torchbucket.store.http.part_upload import PartUpload
from torchbucket.store.protocol import ObjectInfo
from torchbucket.store.transport.body import Body
from torchbucket.store.transport.transport import Transport

__all__ = ["PartWriter", "abort_open_writers", "part_size_bytes"]

# The size of a part doubles after so many. With parts of 5 MiB, the least, 10,000 parts hold 8.4 TiB, and those of
# 8 MiB stay below 128 MiB up to 105 GiB. Source: arithmetic on S3's limits, see `part_size_bytes`.
_PARTS_BEFORE_GROWTH: Final = 900

_open_writers: weakref.WeakSet[PartWriter] = weakref.WeakSet()


def part_size_bytes(first_bytes: int, number: int, most_bytes: int) -> int:
    """The size of the part ``number`` (from 1) of an object whose size nobody knows yet.

    It doubles every 900 parts, so that 10,000 parts hold any object that S3 takes (5 TiB), and is never above the
    provider's bound on a part. *Source:* S3 user guide, "Multipart upload limits".
    """
    return min(most_bytes, first_bytes << ((number - 1) // _PARTS_BEFORE_GROWTH))


class PartWriter(BaseWriter):
    """Copies what is written into part buffers and uploads each as soon as it is full.

    An object below one part is one plain request. An upload is aborted on any failure, when the writer is collected
    without having been closed, and at the interpreter's exit. Not for use by several threads, nor in a forked child.
    """

    def __init__(
        self,
        transport: Transport,
        dialect: Dialect,
        buffers: PartBuffers,
        key: str,
        *,
        condition: Condition | None,
        first_bytes: int,
    ) -> None:
        super().__init__(dialect.address(key))
        self._transport = transport
        self._dialect = dialect
        self._buffers = buffers
        self._key = key
        self._condition = condition
        self._first_bytes = first_bytes
        self._buffer: bytearray | None = None
        self._filled = 0
        self._upload = PartUpload(transport, dialect, key, condition, most_pending=dialect.most_parts)
        self._pid = os.getpid()
        self._left = False
        buffers.enter()
        _open_writers.add(self)

    def _write(self, view: memoryview) -> None:
        self._check_process()
        position = 0
        while position < len(view):
            if self._buffer is None:
                number = self._upload.count + 1
                if number > self._dialect.most_parts:
                    raise StoreError(
                        f"write {self._uri}: the object needs more than {self._dialect.most_parts} parts; raise "
                        "StoreConfig.part_size_bytes",
                        operation="upload_part",
                        uri=self._uri,
                    )
                size = part_size_bytes(self._first_bytes, number, self._dialect.largest_part_bytes)
                self._buffer = self._buffers.take(size)
                self._filled = 0
            piece = view[position : position + len(self._buffer) - self._filled]
            self._buffer[self._filled : self._filled + len(piece)] = piece
            self._filled += len(piece)
            position += len(piece)
            # A full buffer waits for the next byte: only then is it known not to be the whole object.
            if self._filled == len(self._buffer) and position < len(view):
                self._send()

    def _send(self) -> None:
        """Hand the buffer to the upload, which returns it when its part has arrived or failed."""
        buffer, filled, self._buffer = self._buffer, self._filled, None
        assert buffer is not None
        buffers = self._buffers
        body = Body((memoryview(buffer)[:filled],))
        buffers.sending()
        try:
            checksum = self._dialect.upload_sum.of(body.pieces)
            self._upload.send(body, checksum, lambda: buffers.give_back(buffer, sent=True))
        except BaseException:
            buffers.give_back(buffer, sent=True)
            raise

    def _publish(self) -> ObjectInfo:
        self._check_process()
        if not self._upload.count:
            body = Body((memoryview(self._buffer or b"")[: self._filled],))
            checksum = self._dialect.upload_sum.of(body.pieces)
            info = self._transport.run(self._dialect.put_object(self._key, body, checksum, condition=self._condition))
        else:
            if self._buffer is not None:
                self._send()
            info = self._upload.complete()
        self._leave()
        return info

    def _discard(self) -> None:
        if self._pid != os.getpid():
            return
        try:
            self._upload.abort()
        finally:
            self._leave()

    def _leave(self) -> None:
        if self._buffer is not None:
            self._buffers.give_back(self._buffer, sent=False)
            self._buffer = None
        if not self._left:
            self._left = True
            self._buffers.leave()
        _open_writers.discard(self)

    def _check_process(self) -> None:
        if self._pid != os.getpid():
            raise StoreError(
                f"write {self._uri}: this writer was opened before the process forked and belongs to the parent; open "
                "one in the child",
                operation="write",
                uri=self._uri,
            )

    def __del__(self) -> None:
        if getattr(self, "_left", True) or self._pid != os.getpid():
            return
        # A destructor must not wait: the abort is handed over, and the parts on their way are cut.
        self._upload.abort_soon()
        self._leave()


def abort_open_writers() -> None:
    """Abort the uploads of writers that nobody closed, at the interpreter's exit."""
    for writer in list(_open_writers):
        if writer._pid == os.getpid():
            writer.abort()
