"""The contract of a store: one bucket, or one root, whose objects are named by byte-exact keys."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from io import BufferedIOBase
from typing import TYPE_CHECKING, BinaryIO, Final, Protocol, Self, TypeAlias, runtime_checkable

from torchbucket.public import public, public_in
from torchbucket.store.arguments import Bytes, byte_count, check_key, check_version, writable_view
from torchbucket.store.store_future import result_of

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

__all__ = [
    "GAP_BYTES",
    "ListedPage",
    "ObjectData",
    "ObjectInfo",
    "ObjectWriter",
    "OpenUpload",
    "Read",
    "Store",
    "Target",
    "address_in",
]

Target: TypeAlias = tuple[int, memoryview]
"""Where in an object, in bytes, and the writable, contiguous memory to fill from there on."""

GAP_BYTES: Final = 256 << 10
"""Unwanted bytes between two targets that it costs less to read than to ask around. *Source:* a request for 100 KiB
took 0.19 ms of CPU over HTTP and 0.28 over TLS, a GiB in large ranges 0.69 and 0.81 s, so that a request by itself
costs as much as 180 to 260 KiB of a body."""


@public
@dataclass(frozen=True, kw_only=True, slots=True)
class ObjectInfo:
    """What a store knows of an object without its content.

    Args:
        key: the object's key, byte for byte.
        size_bytes: the length of its content.
        version: names the content: the ETag on S3, the generation on Cloud Storage, a digest of inode, size and time of
            a file. Two reads that report the same version saw the same bytes. A listing may leave it out.
        last_modified_s: when it was written, in seconds since 1970 (UTC); None where that was not told.
    """

    key: str
    size_bytes: int
    version: str | None = None
    last_modified_s: float | None = None


@public
@dataclass(frozen=True, kw_only=True, slots=True)
class Read:
    """What a read asks for: the bytes ``[start, stop)`` of one object, which are what slicing its content gives.

    Args:
        key: the object's key.
        start: first byte, at least 0. At or beyond the end, or at or beyond ``stop``, the range holds no bytes.
        stop: end of the range; None, or beyond the end, means the end.
        into: writable, contiguous memory, at least as long as what the range holds, into which the bytes go. Without,
            they come in memory of their own.
        size_bytes: the object's size where it is known from a listing. It only saves a request, and is compared with
            the answer: ``ObjectChangedError`` where the object has another.
        version: read this version or fail with ``ObjectChangedError``. Without, every request of a read that needs
            several is pinned to the version that the first one saw.

    Raises:
        ConfigError: a value that fits no object, or memory that cannot be written to.
    """

    key: str
    start: int = 0
    stop: int | None = None
    into: memoryview | None = None
    size_bytes: int | None = None
    version: str | None = None

    def __post_init__(self) -> None:
        check_key(self.key)
        # What is an `int` already is compared only: reads of small objects are made often.
        start, stop, size_bytes = self.start, self.stop, self.size_bytes
        if type(start) is not int or start < 0:
            object.__setattr__(self, "start", byte_count("start", start))
        if stop is not None and (type(stop) is not int or stop < 0):
            object.__setattr__(self, "stop", byte_count("stop", stop))
        if size_bytes is not None and (type(size_bytes) is not int or size_bytes < 0):
            object.__setattr__(self, "size_bytes", byte_count("size_bytes", size_bytes))
        if self.into is not None:
            object.__setattr__(self, "into", writable_view(self.into))
        if self.version is not None:
            check_version(self.version)

    def length_in(self, size_bytes: int) -> int:
        """How many bytes the range holds of an object of ``size_bytes``."""
        stop = size_bytes if self.stop is None else min(self.stop, size_bytes)
        return max(0, stop - self.start)

    @property
    def length_bytes(self) -> int | None:
        """How many bytes the range holds, at most where the object's size is not known; None where that is open."""
        if self.size_bytes is not None:
            return self.length_in(self.size_bytes)
        return None if self.stop is None else max(0, self.stop - self.start)


@public
@dataclass(frozen=True, kw_only=True, slots=True)
class ObjectData:
    """The bytes ``[start, start + len(data))`` of one object, all of the same version.

    Args:
        info: describes the whole object.
        start: where in the object ``data`` begins, in bytes.
        data: belongs to the receiver: the store keeps no reference to it.
    """

    info: ObjectInfo
    start: int
    data: bytes | bytearray | memoryview


@dataclass(frozen=True, kw_only=True, slots=True)
class ListedPage:
    """The first objects after some key, in byte order of their keys, in columns of equal length.

    ``complete`` says that no object follows the last one of the page under the prefix that was asked for. A page that
    is not complete may be of any length, and empty too. ``resume_after`` is where to go on: no object between it and
    the page's last one exists; it is at least the last key. ``modified_s`` is empty where the server does not tell.
    """

    keys: list[str]
    sizes_bytes: list[int]
    versions: list[str | None]
    complete: bool
    resume_after: str
    modified_s: Sequence[float | None] = ()


@public_in("torchbucket.store")
@dataclass(frozen=True, kw_only=True, slots=True)
class OpenUpload:
    """A multipart upload that was begun and neither completed nor aborted."""

    key: str
    upload_id: str
    started_s: float | None = None


@public_in("torchbucket.store")
class ObjectWriter(BufferedIOBase, BinaryIO):
    """A streamed write, as a file open for writing: the object appears whole when ``close`` returns, or never.

    For whatever writes to a binary file, in order: ``torch.save``, pickle, zipfile, ``io.TextIOWrapper``. Leaving a
    ``with`` block by an exception aborts. An ``io`` wrapper around it closes it, hence publishes, also when its own
    block is left by an exception: ``detach`` the wrapper and leave the closing to the writer's block.

    Not for use by several threads at once, nor in a forked child.
    """

    @property
    @abstractmethod
    def info(self) -> ObjectInfo:
        """The object that was published; a ``StoreError`` as long as none was."""

    @abstractmethod
    def write(self, data: ReadableBuffer, /) -> int:
        """Copy all of ``data`` before returning, so that the caller may reuse its memory; return its size in bytes.

        Raises:
            ValueError: the writer was closed or aborted.
            StoreError: what made any part fail; the write is aborted then.
        """

    @abstractmethod
    def write_range(self, source: ObjectInfo, start: int, stop: int, /) -> int:
        """Append the bytes ``[start, stop)`` of another object of the same store, which has the version of ``source``.

        They do not pass through this process where the store can do without (``Store.least_copy_bytes``); else they are
        read and written, some at a time. Return how many they are.

        Raises:
            ValueError: the writer was closed or aborted.
            ConfigError: it is no range within the size that ``source`` tells.
            ObjectChangedError: the source was overwritten since; by ``close`` at the latest.
            StoreError: it could not be copied. After any error the write is aborted.
        """

    @abstractmethod
    def close(self) -> None:
        """Publish the object, once; ``info`` describes it then. Raise what made any part fail."""

    @abstractmethod
    def abort(self) -> None:
        """Give the write up and leave nothing behind; allowed after a failure and an ``abort``, not after ``close``.

        Raises nothing where the server cannot be reached, since what made the caller give up matters more: it is asked
        on, as long as the store is open, and a warning says what may be left.
        """

    @abstractmethod
    def __enter__(self) -> Self: ...


@public
@runtime_checkable
class Store(Protocol):
    """One bucket or root. Methods may be called from any thread and, after a fork, from the child as well.

    Keys and prefixes are plain text, encoded as UTF-8 and compared byte by byte: a prefix may end inside a word,
    and ``a//b``, ``./c`` and ``d/`` are names like any other. Every failure raises a subclass of
    :class:`torchbucket.StoreError`, from the call or from the future it returned.
    """

    @property
    def uri(self) -> str:
        """The root's address, such as ``s3://bucket`` or ``file:///``; an object's has its key after a slash."""
        ...

    @property
    def lists_by_walking(self) -> bool:
        """Whether names are found by a walk, so that ``list`` takes one of them and each page another."""
        return False

    @property
    def least_copy_bytes(self) -> int | None:
        """The shortest range that ``ObjectWriter.write_range`` appends without its passing through this process; None
        where every range is read and written."""
        return None

    def list(self, prefix: str = "", *, start_after: str = "") -> Iterator[ObjectInfo]:
        """Yield every object whose key begins with ``prefix``, in the order of the keys' UTF-8 bytes, each once."""
        ...

    def submit_list_page(self, prefix: str = "", *, start_after: str = "") -> Future[ListedPage]:
        """Begin to list the objects under ``prefix`` whose keys come after ``start_after``, as many as one page holds.

        Independent of every other page, so that several parts of a prefix can be listed at once.
        """
        ...

    def head(self, key: str) -> ObjectInfo:
        """Describe one object; raise ``NotFoundError`` where there is none."""
        ...

    def submit_read(self, read: Read) -> Future[ObjectData]:
        """Begin a read and return at once; the store bounds the requests in flight.

        Cancelling the future drops requests not yet begun; do not touch ``read.into`` before the future is done.
        """
        ...

    def submit_read_into(
        self,
        key: str,
        targets: Sequence[Target],
        *,
        size_bytes: int | None = None,
        version: str | None = None,
        gap_bytes: int = GAP_BYTES,
        filled: Callable[[int], None] | None = None,
    ) -> Future[ObjectInfo]:
        """Begin to fill many pieces of memory from one object and return at once; bytes go straight into them.

        The future tells the object when all are full. Neighbours are asked for together, what is long in parts at the
        same time, and all bytes are of one version. Cancelling drops requests not yet begun; the memory is the
        caller's again when the future is done, and holds anything where that has failed.

        Args:
            key: the object's key.
            targets: (start, memory) pairs, in any order. They may overlap in the object, not in memory; one of no bytes
                is full at once.
            size_bytes: the object's size where it is known; see :class:`Read`. Targets that together are the whole
                object are then held against its checksum.
            version: read this version or fail with ``ObjectChangedError``; None means the one that is seen first.
            gap_bytes: bytes between two targets that are read and dropped rather than asked around.
            filled: called with the position of each target in ``targets`` as soon as it is full, before the future is
                done; on the store's own thread, so it must be quick. A checksum may still prove the bytes wrong: then
                it is called again after they were fetched anew, or the future fails.

        Raises:
            ConfigError: memory that cannot be written to, a start below 0, a wrong key, size or version.
            TruncatedError: by the future, where the object ends before a target does; nothing is written beyond.
        """
        ...

    def read(self, key: str, *, start: int = 0, stop: int | None = None, version: str | None = None) -> ObjectData:
        """Read the bytes ``[start, stop)`` and wait for them; see :class:`Read`."""
        return result_of(self.submit_read(Read(key=key, start=start, stop=stop, version=version)))

    def open_writer(
        self, key: str, *, size_hint: int | None = None, if_absent: bool = False, if_version: str | None = None
    ) -> ObjectWriter:
        """Begin a streamed write, published by ``close``.

        ``size_hint`` is the object's size in bytes as far as the caller knows it. It saves memory for small objects,
        and for very large ones it makes the parts large enough; writing more or less is no error.

        With ``if_absent``, closing raises ``PreconditionFailedError`` if the key exists; with ``if_version``, unless
        the object has that version. Both together are a ``ConfigError``.
        """
        ...

    def write(self, key: str, data: Bytes, *, if_absent: bool = False, if_version: str | None = None) -> ObjectInfo:
        """Write a whole object from one piece of memory; see ``write_from``."""
        return self.write_from(key, (data,), if_absent=if_absent, if_version=if_version)

    def write_from(
        self,
        key: str,
        pieces: Sequence[Bytes],
        *,
        if_absent: bool = False,
        if_version: str | None = None,
        multipart: bool = True,
    ) -> ObjectInfo:
        """Write a whole object from pieces of memory, one after another, in parts where it is large.

        The memory is sent as it is, without a copy, and must not change before the call returns. Pieces may have any
        size and number and must be contiguous: a tensor's is ``memoryview(tensor.view(torch.uint8).numpy())``. For the
        conditions see ``open_writer``.

        Without ``multipart`` it is one request whatever the size, for services without uploads in parts: a
        ``StoreError``, before anything is sent, above the 5 GiB that one takes.
        """
        ...

    def delete(self, key: str, *, if_version: str | None = None) -> None:
        """Remove an object; removing one that is not there is no error.

        With ``if_version``, raise ``PreconditionFailedError`` and remove nothing where the object has another version.
        """
        ...

    def copy(self, source_key: str, target_key: str) -> ObjectInfo:
        """Copy an object within the store, on the server's side, replacing what the target key held."""
        ...

    def compose(self, sources: Sequence[ObjectInfo], target_key: str) -> ObjectInfo:
        """Join objects into one on the server's side, in this order, replacing what the target key held.

        Each source is pinned to its version where it has one: ``ObjectChangedError`` where it was overwritten
        meanwhile. The sources stay. Any number of sources is accepted; what the provider joins at once is the store's
        business, and intermediate objects, whose names begin with ``target_key``, are removed. A store without such a
        request raises ``UnsupportedError``.
        """
        ...

    def list_uploads(self, prefix: str = "") -> Iterator[OpenUpload]:
        """Yield the uploads left open under a prefix; a store without such uploads yields none."""
        ...

    def abort_upload(self, upload: OpenUpload) -> None:
        """Abort one open upload; one that is gone already is no error."""
        ...

    def close(self) -> None:
        """Release connections and threads; the store may be used again and then opens new ones."""
        ...


def address_in(store: Store, key: str) -> str:
    """The full address of an object of a store."""
    return f"{store.uri.removesuffix('/')}/{key}"
