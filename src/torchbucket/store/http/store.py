"""A store behind HTTP: the calls of the protocol, made of a dialect's requests and run by the transport."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import ClassVar, TypeVar

from torchbucket.config import StoreConfig
from torchbucket.errors import UnsupportedError
from torchbucket.store.arguments import check_key
from torchbucket.store.base import BaseStore, refuse_fields
from torchbucket.store.conditions import Condition
from torchbucket.store.daemon_thread import call_at_exit
from torchbucket.store.forking import renew_after_fork
from torchbucket.store.http.composition import compose_many
from torchbucket.store.http.dialect import Dialect
from torchbucket.store.http.large_read import LargeRead
from torchbucket.store.http.page_request import PageRequest
from torchbucket.store.http.part_writer import PartWriter, abort_open_writers
from torchbucket.store.http.range_read import RangeRead
from torchbucket.store.http.scatter_read import ScatterRead
from torchbucket.store.http.whole_write import copy_in_parts, write_from_memory
from torchbucket.store.list_page import infos_of, wrong_listing
from torchbucket.store.protocol import ListedPage, ObjectData, ObjectInfo, OpenUpload, Read, Target
from torchbucket.store.store_future import refuse_to_wait
from torchbucket.store.transport.operation import Operation
from torchbucket.store.transport.request_record import Observer
from torchbucket.store.transport.transport import Transport, close_all
from torchbucket.uri import ObjectURI, key_bytes

__all__ = ["HttpStore"]

T = TypeVar("T")


class HttpStore(BaseStore):
    """A bucket of a provider whose protocol a dialect knows. Nothing is sent, and no credentials are looked for, before
    it is used.

    Safe for use by several threads; a forked child opens connections of its own; pickled, it is address and settings.

    Args:
        uri: the bucket's address; a key in it is ignored.
        config: the settings.
        observer: called with a record of every request, on the store's thread.

    Raises:
        ConfigError: a setting was given that means nothing to the provider.
    """

    meaningless: ClassVar[Mapping[str, str]]
    """The settings that mean nothing to the provider, and what to do instead."""

    def __init__(self, uri: ObjectURI, config: StoreConfig, *, observer: Observer | None = None) -> None:
        refuse_fields(config, uri.root, self.meaningless)
        super().__init__(uri.root, config)
        self._dialect = self._dialect_of(uri.bucket, config)
        self._transport = Transport(config, observer)
        renew_after_fork(self)

    @staticmethod
    @abstractmethod
    def _dialect_of(bucket: str, config: StoreConfig) -> Dialect:
        """Make the provider's dialect."""

    def renew(self) -> None:
        """Give a forked child a dialect with locks of its own."""
        self._dialect.renew()

    @property
    def least_copy_bytes(self) -> int | None:
        return self._dialect.least_part_bytes if self._dialect.copies_parts else None

    def list(self, prefix: str = "", *, start_after: str = "") -> Iterator[ObjectInfo]:
        """Yield the objects under a prefix, fetching the next page while one is used.

        Raises:
            StoreError: a page repeats or goes backward; a wrong or endless listing is never returned.
        """
        following = self.submit_list_page(prefix, start_after=start_after)
        try:
            while True:
                page = following.result()
                if not page.complete:
                    following = self.submit_list_page(prefix, start_after=page.resume_after)
                yield from infos_of(page)
                if page.complete:
                    return
        except BaseException:
            following.cancel()
            raise
        finally:
            del following  # An error keeps the frames that it passes, which must not keep it in turn.

    def submit_list_page(self, prefix: str = "", *, start_after: str = "") -> Future[ListedPage]:
        """Begin to list one page; pages are asked for by key, so any number of them can be on the way at once."""
        key_bytes(prefix)
        key_bytes(start_after)
        self._dialect.prepare()
        request = PageRequest(self._dialect, prefix, start_after)
        self._transport.submit((request,))
        return request.future

    def head(self, key: str) -> ObjectInfo:
        check_key(key)
        return self._ask(self._dialect.head_object(key))

    def submit_read(self, read: Read) -> Future[ObjectData]:
        """Begin a read: one request for what fits in a part, several at once for more."""
        self._dialect.prepare()
        part_bytes, length = self._config.part_size_bytes, read.length_bytes
        if length is None or length > part_bytes:
            most_fetches = self._config.retry.max_attempts
            return LargeRead(
                self._transport, self._dialect, read, part_bytes=part_bytes, most_fetches=most_fetches
            ).begin()
        request = RangeRead(self._dialect, read, whole=read.start == 0 and length == read.size_bytes)
        self._transport.submit((request,))
        return request.future

    def _fill(
        self, read: Read, targets: Sequence[Target], gap_bytes: int, filled: Callable[[int], None] | None
    ) -> Future[ObjectInfo]:
        """Begin to fill many pieces of memory, by as many requests at once as the bytes need."""
        self._dialect.prepare()
        return ScatterRead(
            self._transport,
            self._dialect,
            read,
            targets,
            gap_bytes=gap_bytes,
            filled=filled,
            part_bytes=self._config.part_size_bytes,
            most_fetches=self._config.retry.max_attempts,
        ).begin()

    def _open_writer(self, key: str, size_hint: int | None, condition: Condition | None) -> PartWriter:
        """Begin a streamed write; nothing is sent before the first part is full."""
        self._dialect.prepare()
        return PartWriter(
            self._transport,
            self._dialect,
            self._config,
            key,
            condition=condition,
            size_hint=size_hint,
            read=self.submit_read,
        )

    def _write_from(
        self, key: str, pieces: Sequence[memoryview], condition: Condition | None, multipart: bool
    ) -> ObjectInfo:
        """Write an object from memory, without a copy of it."""
        self._dialect.prepare()
        return write_from_memory(
            self._transport, self._dialect, self._config, key, pieces, condition, multipart=multipart
        )

    def _delete(self, key: str, condition: Condition | None) -> None:
        self._ask(self._dialect.delete_object(key, condition=condition))

    def copy(self, source_key: str, target_key: str) -> ObjectInfo:
        """Copy an object on the server's side, in parts where it is too large for one request."""
        check_key(source_key)
        check_key(target_key)
        source = self.head(source_key)
        if source.size_bytes <= self._dialect.largest_copy_bytes:
            return self._ask(self._dialect.copy_object(source, target_key))
        return copy_in_parts(self._transport, self._dialect, self._config, source, target_key)

    def compose(self, sources: Sequence[ObjectInfo], target_key: str) -> ObjectInfo:
        check_key(target_key)
        for source in sources:
            check_key(source.key)
        refuse_to_wait(f"compose {self.address(target_key)}")
        if not self._dialect.most_sources:
            uri = self.address(target_key)
            raise UnsupportedError(
                f"compose {uri}: the provider joins no objects into one; write the object anew",
                operation="compose_object",
                uri=uri,
            )
        self._dialect.prepare()
        return compose_many(self._transport, self._dialect, sources, target_key)

    def list_uploads(self, prefix: str = "") -> Iterator[OpenUpload]:
        key_bytes(prefix)
        marker: tuple[str, str] | None = None
        while True:
            uploads, following = self._ask(self._dialect.upload_page(prefix, marker))
            yield from uploads
            if following is None:
                return
            if marker is not None and (following == marker or key_bytes(following[0]) < key_bytes(marker[0])):
                raise wrong_listing(self.address(prefix), "the server repeats a page of open uploads")
            marker = following

    def abort_upload(self, upload: OpenUpload) -> None:
        check_key(upload.key)
        self._ask(self._dialect.abort_upload(upload.key, upload.upload_id))

    def start(self) -> None:
        """Start the transport's thread, which the first request would else."""
        self._transport.submit(())

    def close(self) -> None:
        """End the transport's thread and connections, once what was begun is done."""
        self._transport.close()

    def _ask(self, operation: Operation[T]) -> T:
        self._dialect.prepare()
        return self._transport.run(operation)


call_at_exit(close_all)
call_at_exit(abort_open_writers)
