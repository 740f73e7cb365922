"""The life of a streamed write, the same for all stores: open, then published or given up."""

from __future__ import annotations

import logging
import os
from io import UnsupportedOperation
from types import TracebackType
from typing import TYPE_CHECKING, Self

from torchbucket.errors import ConfigError, StoreError
from torchbucket.store.arguments import byte_view
from torchbucket.store.protocol import ObjectInfo, ObjectWriter

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

__all__ = ["BaseWriter"]

_log = logging.getLogger("torchbucket.uploads")


class BaseWriter(ObjectWriter):
    """A writer of which a subclass says how bytes are taken, published and given up.

    ``_write``, ``_publish`` and ``_discard`` are called in the right state only, and never in a forked child. What the
    subclass acquires it acquires before it calls this constructor: a writer that was not made is not given up.

    Args:
        uri: the object's address.
    """

    def __init__(self, uri: str) -> None:
        super().__init__()
        self._uri = uri
        self._pid = os.getpid()
        self._written_bytes = 0
        self._info: ObjectInfo | None = None
        self._aborted = False

    def _write(self, view: memoryview) -> None:
        """Copy bytes."""
        raise NotImplementedError

    def _write_range(self, source: ObjectInfo, start: int, stop: int) -> None:
        """Append a range of another object, which has some bytes."""
        raise NotImplementedError

    def _publish(self) -> ObjectInfo:
        """Make the object appear, and describe it."""
        raise NotImplementedError

    def _discard(self) -> None:
        """Leave nothing behind."""
        raise NotImplementedError

    def _discard_unclosed(self) -> None:
        """Leave nothing behind, when the writer is collected: without waiting for anything."""

    @property
    def name(self) -> str:
        """The object's address."""
        return self._uri

    @property
    def mode(self) -> str:
        """``wb``, as of a file."""
        return "wb"

    @property
    def closed(self) -> bool:
        """Whether the object was published, or the write given up."""
        return self._aborted or self._info is not None

    @property
    def info(self) -> ObjectInfo:
        if self._info is None:
            state = "was aborted" if self._aborted else "is not closed yet"
            raise StoreError(f"{self._uri} is not published: the write {state}", operation="write", uri=self._uri)
        return self._info

    def writable(self) -> bool:
        """True."""
        self._check_open()
        return True

    def tell(self) -> int:
        """How many bytes were written."""
        self._check_open()
        return self._written_bytes

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """Refuse: bytes are sent in the order in which they are written."""
        raise UnsupportedOperation(f"cannot seek to {offset} ({whence}): {self._uri} is written in order")

    def flush(self) -> None:
        """Do nothing: a part is sent when it is full, and the object appears by ``close`` alone."""
        self._check_open()

    def write(self, data: ReadableBuffer, /) -> int:
        self._check_open()
        view = byte_view(data)
        self._check_process()
        try:
            self._write(view)
        except BaseException:
            self.abort()
            raise
        self._written_bytes += len(view)
        return len(view)

    def write_range(self, source: ObjectInfo, start: int, stop: int, /) -> int:
        self._check_open()
        if not 0 <= start <= stop <= source.size_bytes:
            self.abort()
            raise ConfigError(
                f"write {self._uri}: [{start}, {stop}) is no range of {source.key!r}, which has {source.size_bytes} "
                "bytes"
            )
        self._check_process()
        try:
            if start < stop:
                self._write_range(source, start, stop)
        except BaseException:
            self.abort()
            raise
        self._written_bytes += stop - start
        return stop - start

    def close(self) -> None:
        if self._info is not None:
            return
        if self._aborted:
            raise StoreError(f"cannot close: the write to {self._uri} was aborted", operation="close", uri=self._uri)
        self._check_process()
        try:
            self._info = self._publish()
        except BaseException:
            self.abort()
            raise

    def abort(self) -> None:
        if self._info is not None:
            raise StoreError(f"{self._uri} is published already and cannot be aborted; delete it", uri=self._uri)
        if self._aborted:
            return
        self._aborted = True
        if self._pid != os.getpid():
            return
        try:
            self._discard()
        except Exception as error:  # noqa: BLE001  # what made the caller give up matters more
            _log.warning("the write to %s was given up and may have left something behind: %s", self._uri, error)

    def __enter__(self) -> Self:
        self._check_open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> None:
        if kind is None:
            self.close()
        elif self._info is None:
            self.abort()

    def __del__(self) -> None:
        # Not io's own, which would close, and so publish what nobody finished.
        if not getattr(self, "_aborted", True) and self._info is None and self._pid == os.getpid():
            self._aborted = True
            self._discard_unclosed()

    def _check_open(self) -> None:
        if self.closed:
            state = "was aborted" if self._aborted else "is closed"
            raise ValueError(f"I/O operation on closed file: the write to {self._uri} {state}")

    def _check_process(self) -> None:
        if self._pid != os.getpid():
            raise StoreError(
                f"write {self._uri}: this writer was opened before the process forked and belongs to the parent; open "
                "one in the child",
                operation="write",
                uri=self._uri,
            )
