"""The file object that a data set hands to ``transform``: one object of a bucket, open for reading."""

from __future__ import annotations

import io
import operator
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, BinaryIO, Final, NoReturn, Self

from torchbucket.dataloader_worker import in_dataloader_worker
from torchbucket.errors import ConfigError
from torchbucket.files.content import Content, RangedContent, WholeContent
from torchbucket.public import public
from torchbucket.store.protocol import ObjectData, Store

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

__all__ = ["ObjectReader"]

_LOOK_BYTES: Final = 512  # a line of text is mostly shorter; longer ones are looked through in growing pieces


@public
class ObjectReader(io.BufferedIOBase, BinaryIO):
    """One object as a read-only binary file, for anything that takes one: PIL, ``torch.load``, zipfile, tarfile.

    Reads, seeks and errors are those of ``io.BytesIO``: a seek beyond the end is allowed and reads nothing there. To a
    type checker it is a ``BinaryIO``. The bytes are either in memory already (``from_data``), or
    fetched in ranges as they are needed (``lazy``); then every read may raise a ``StoreError``, and all bytes are of
    the version that the first request saw: once the object is overwritten, reads raise ``ObjectChangedError``.

    Not for use by several threads at once, and cannot be pickled: return what you read, not the reader, from a
    ``transform`` that runs in a DataLoader's worker.

    Args:
        content: where the bytes come from.
        key: the object's key.
        uri: the object's address.
    """

    def __init__(self, content: Content, *, key: str, uri: str) -> None:
        super().__init__()
        self._content = content
        self._key = key
        self._uri = uri
        self._position = 0

    @classmethod
    def from_data(cls, data: ObjectData, *, uri: str) -> Self:
        """Open a whole body that was read before; it is not copied."""
        return cls(WholeContent(data.data), key=data.info.key, uri=uri)

    @classmethod
    def lazy(
        cls,
        store: Store,
        key: str,
        *,
        uri: str,
        size_bytes: int | None = None,
        version: str | None = None,
    ) -> Self:
        """Open an object without a request.

        ``size_bytes`` saves one later where a listing told it. With ``version`` reads raise ``ObjectChangedError``
        unless the object still has that version; without, all are pinned to the one that the first request saw.
        """
        return cls(RangedContent(store, key, size_bytes=size_bytes, version=version), key=key, uri=uri)

    @property
    def key(self) -> str:
        """The object's key, byte for byte as in the bucket."""
        return self._key

    @property
    def uri(self) -> str:
        """The object's address, such as ``s3://bucket/key``."""
        return self._uri

    @property
    def name(self) -> str:
        """The object's address, as ``uri``."""
        return self._uri

    @property
    def mode(self) -> str:
        """``rb``, as of a file."""
        return "rb"

    @property
    def size_bytes(self) -> int:
        """The object's size; a lazy reader that no listing told it asks the store once."""
        self._check_open()
        return self._content.size_bytes

    def read(self, size: int | None = -1, /) -> bytes:
        """Return up to ``size`` bytes, or all the rest for None or -1; fewer only at the end of the object.

        Reading all of a body that was fetched as ``bytes`` copies nothing.
        """
        self._check_open()
        size = _size(size)
        if size == 0:
            return b""
        stop = None if size < 0 else self._position + size
        data = self._content.read(self._position, stop)
        self._position += len(data)
        return data if isinstance(data, bytes) else bytes(data)

    def read1(self, size: int = -1, /) -> bytes:
        """Return up to ``size`` bytes of those in memory, after at most one request where there are none."""
        self._check_open()
        size = _size(size)
        if size == 0:
            return b""
        available = self._content.available(self._position)
        piece = bytes(available if size < 0 else available[:size])
        self._position += len(piece)
        return piece

    def peek(self, size: int = 0, /) -> bytes:
        """Return bytes from the current position on without moving it, none only at the end; ``size`` is a hint."""
        self._check_open()
        available = self._content.available(self._position)
        return bytes(available[: max(_size(size), io.DEFAULT_BUFFER_SIZE)])

    def readline(self, size: int | None = -1, /) -> bytes:
        """Return the bytes up to and with the next line feed, or the rest where there is none; at most ``size``."""
        # Not io's own: it returns more than `size` where `peek` gives less than that (seen with CPython 3.11).
        self._check_open()
        size = _size(size)
        wanted = sys.maxsize if size < 0 else size
        line = bytearray()
        look_bytes = _LOOK_BYTES
        while len(line) < wanted:
            piece = bytes(self._content.available(self._position)[: min(look_bytes, wanted - len(line))])
            end = piece.find(b"\n") + 1
            line += piece[: end or None]
            self._position += end or len(piece)
            if end or not piece:
                break
            look_bytes *= 2
        return bytes(line)

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Fill ``buffer`` and return how many bytes there were; a long range lands straight in it."""
        self._check_open()
        with memoryview(buffer) as view, view.cast("B") as target:
            filled = self._content.read_into(self._position, target)
        self._position += filled
        return filled

    def readinto1(self, buffer: WriteableBuffer, /) -> int:
        """Fill ``buffer`` with bytes in memory, after at most one request where there are none."""
        self._check_open()
        with memoryview(buffer) as view, view.cast("B") as target:
            if not target:
                return 0
            piece = self._content.available(self._position)[: len(target)]
            target[: len(piece)] = piece
        self._position += len(piece)
        return len(piece)

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Move to ``offset`` from the start, the current position or the end; a place beyond the end is allowed.

        Raises:
            TypeError: an offset that is no whole number.
            ValueError: a negative offset from the start, or an unknown ``whence``.
        """
        self._check_open()
        offset = operator.index(offset)
        if whence == io.SEEK_SET:
            if offset < 0:
                raise ValueError(f"negative seek value {offset}")
            self._position = offset
        elif whence == io.SEEK_CUR:
            self._position = max(0, self._position + offset)
        elif whence == io.SEEK_END:
            self._position = max(0, self._content.size_bytes + offset)
        else:
            raise ValueError(f"whence is 0, 1 or 2; got {whence}")
        return self._position

    def tell(self) -> int:
        """The current position in bytes from the start."""
        self._check_open()
        return self._position

    def readable(self) -> bool:
        """True while the reader is open."""
        self._check_open()
        return True

    def seekable(self) -> bool:
        """True while the reader is open."""
        self._check_open()
        return True

    def close(self) -> None:
        """Let go of the memory and of any request under way; closing again is allowed."""
        if not self.closed:
            self._content.close()
        super().close()

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError(f"the reader of {self._uri} is closed")

    def __reduce_ex__(self, protocol: object) -> tuple[Callable[[str], NoReturn], tuple[str]]:
        # A worker pickles samples in a thread whose errors nobody hears of, and the loader would wait for ever: so what
        # it sends is the error.
        if in_dataloader_worker():
            return _refuse_reader, (self._uri,)
        raise TypeError(f"an ObjectReader ({self._uri}) cannot be pickled: keep what you read, not the reader")

    def __repr__(self) -> str:
        return f"<ObjectReader {self._uri}{' closed' if self.closed else ''}>"


def _refuse_reader(uri: str) -> NoReturn:
    raise ConfigError(
        f"{uri}: transform, or collate_fn, returned the open reader, which cannot be sent out of a DataLoader's "
        "worker: return what you read, such as reader.read()"
    )


def _size(size: int | None) -> int:
    """A size as a whole number, -1 for None; ``TypeError`` where it is none."""
    return -1 if size is None else operator.index(size)
