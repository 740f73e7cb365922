"""The part that all wrappers share: every call of the protocol, forwarded through two hooks."""

# ruff: noqa: ARG002  # the hooks are for overrides, which use what these do not
from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import Final, TypeVar

from torchbucket.public import public_in
from torchbucket.store.arguments import Bytes, byte_count, byte_view
from torchbucket.store.protocol import (
    GAP_BYTES,
    ListedPage,
    ObjectData,
    ObjectInfo,
    ObjectWriter,
    OpenUpload,
    Read,
    Store,
    Target,
)
from torchbucket.store.scatter import checked_targets
from torchbucket.store.starting import start_threads
from torchbucket.store.writer import BaseWriter
from torchbucket.uri import key_bytes

__all__ = ["ForwardingStore", "read_bytes"]

T = TypeVar("T")

_END: Final = object()


@public_in("torchbucket.store.wrappers")
class ForwardingStore(Store):
    """A store that does everything through another one.

    A subclass overrides ``_call`` or ``_submit``, through which every call goes, a writer's too. It pickles as its
    class around the inner store.

    Args:
        inner: the store that does the work; the wrapper may be one as well.
    """

    def __init__(self, inner: Store) -> None:
        self._inner = inner

    @property
    def inner(self) -> Store:
        """The store that does the work."""
        return self._inner

    @property
    def uri(self) -> str:
        return self._inner.uri

    @property
    def lists_by_walking(self) -> bool:
        return self._inner.lists_by_walking

    @property
    def least_copy_bytes(self) -> int | None:
        return self._inner.least_copy_bytes

    # -- the hooks ----------------------------------------------------------------------------------------------------

    def _call(self, operation: str, call: Callable[[], T], *, sent_bytes: int = 0, position: int = 0) -> T:
        """Make a call that returns when it is done; ``sent_bytes`` go with it.

        Of a listing, to take the item at ``position`` is a call.
        """
        return call()

    def _submit(self, operation: str, begin: Callable[[], Future[T]], *, wanted_bytes: int = 0) -> Future[T]:
        """Make a call that returns a future at once; it asks for ``wanted_bytes``, 0 where that is not known."""
        return begin()

    # -- the protocol -------------------------------------------------------------------------------------------------

    def list(self, prefix: str = "", *, start_after: str = "") -> Iterator[ObjectInfo]:
        return self._iterate("list", self._inner.list(prefix, start_after=start_after))

    def submit_list_page(self, prefix: str = "", *, start_after: str = "") -> Future[ListedPage]:
        key_bytes(prefix)
        key_bytes(start_after)
        return self._submit("submit_list_page", lambda: self._inner.submit_list_page(prefix, start_after=start_after))

    def head(self, key: str) -> ObjectInfo:
        return self._call("head", lambda: self._inner.head(key))

    def submit_read(self, read: Read) -> Future[ObjectData]:
        return self._submit("submit_read", lambda: self._inner.submit_read(read), wanted_bytes=read.length_bytes or 0)

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
        # At once, as the inner store would, whenever the call is made.
        Read(key=key, size_bytes=size_bytes, version=version)
        byte_count("gap_bytes", gap_bytes)
        flat = checked_targets(targets)
        return self._submit(
            "submit_read_into",
            lambda: self._inner.submit_read_into(
                key, flat, size_bytes=size_bytes, version=version, gap_bytes=gap_bytes, filled=filled
            ),
            wanted_bytes=sum(len(memory) for _, memory in flat),
        )

    def open_writer(
        self, key: str, *, size_hint: int | None = None, if_absent: bool = False, if_version: str | None = None
    ) -> ObjectWriter:
        def begin() -> ObjectWriter:
            return self._inner.open_writer(key, size_hint=size_hint, if_absent=if_absent, if_version=if_version)

        return _ForwardingWriter(self, self._call("open_writer", begin))

    def write(self, key: str, data: Bytes, *, if_absent: bool = False, if_version: str | None = None) -> ObjectInfo:
        return self._call(
            "write",
            lambda: self._inner.write(key, data, if_absent=if_absent, if_version=if_version),
            sent_bytes=len(byte_view(data)),
        )

    def write_from(
        self,
        key: str,
        pieces: Sequence[Bytes],
        *,
        if_absent: bool = False,
        if_version: str | None = None,
        multipart: bool = True,
    ) -> ObjectInfo:
        return self._call(
            "write_from",
            lambda: self._inner.write_from(
                key, pieces, if_absent=if_absent, if_version=if_version, multipart=multipart
            ),
            sent_bytes=sum(len(byte_view(piece)) for piece in pieces),
        )

    def delete(self, key: str, *, if_version: str | None = None) -> None:
        self._call("delete", lambda: self._inner.delete(key, if_version=if_version))

    def copy(self, source_key: str, target_key: str) -> ObjectInfo:
        return self._call("copy", lambda: self._inner.copy(source_key, target_key))

    def compose(self, sources: Sequence[ObjectInfo], target_key: str) -> ObjectInfo:
        return self._call("compose", lambda: self._inner.compose(sources, target_key))

    def list_uploads(self, prefix: str = "") -> Iterator[OpenUpload]:
        return self._iterate("list_uploads", self._inner.list_uploads(prefix))

    def abort_upload(self, upload: OpenUpload) -> None:
        self._call("abort_upload", lambda: self._inner.abort_upload(upload))

    def start(self) -> None:
        """Start what the inner store needs; see ``start_threads``."""
        start_threads(self._inner)

    def close(self) -> None:
        self._inner.close()

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self._inner,)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._inner!r})"

    def _iterate(self, operation: str, items: Iterator[T]) -> Iterator[T]:
        position = 0
        try:
            while (item := self._call(operation, lambda: next(items, _END), position=position)) is not _END:
                position += 1
                yield item  # type: ignore[misc]  # mypy does not narrow by a sentinel
        finally:
            # An inner generator has the next page on its way and gives that up.
            close = getattr(items, "close", None)
            if close is not None:
                close()


def read_bytes(result: object, wanted_bytes: int) -> int:
    """How many bytes a successful call brought; a read may have asked for more than there were."""
    return len(result.data) if isinstance(result, ObjectData) else wanted_bytes


class _ForwardingWriter(BaseWriter):
    """A writer whose calls go through a wrapper's ``_call``."""

    def __init__(self, store: ForwardingStore, inner: ObjectWriter) -> None:
        super().__init__(inner.name)
        self._call = store._call
        self._inner = inner

    def _write(self, view: memoryview) -> None:
        self._call("writer.write", lambda: self._inner.write(view), sent_bytes=len(view))

    def _write_range(self, source: ObjectInfo, start: int, stop: int) -> None:
        self._call("writer.write_range", lambda: self._inner.write_range(source, start, stop))

    def _publish(self) -> ObjectInfo:
        self._call("writer.close", self._inner.close)
        return self._inner.info

    def _discard(self) -> None:
        self._call("writer.abort", self._inner.abort)
