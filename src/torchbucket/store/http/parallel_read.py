"""Parts of one object, fetched at the same time by requests of their own, all of one version."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import CancelledError, Future
from functools import partial
from typing import Any, Generic, TypeVar

from torchbucket.errors import ObjectChangedError
from torchbucket.store.http.body import ScatteredBody
from torchbucket.store.http.checksums import Checksum
from torchbucket.store.http.dialect import Dialect
from torchbucket.store.http.part_sums import ChecksumQuery, PartSums
from torchbucket.store.http.range_read import RangeRead
from torchbucket.store.protocol import ObjectData, ObjectInfo, Read
from torchbucket.store.scatter import Part
from torchbucket.store.store_future import StoreFuture
from torchbucket.store.transport.operation import Operation
from torchbucket.store.transport.transport import Transport

__all__ = ["ParallelRead"]

T = TypeVar("T")


class _ParallelFuture(StoreFuture[T]):
    """The future of the whole; cancelling it cuts the parts, and it is done when none writes to memory any more."""

    def __init__(self, read: ParallelRead[T]) -> None:
        super().__init__()
        self._read: ParallelRead[T] | None = read
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


class ParallelRead(Generic[T]):
    """Fetches parts into the memory that they name, and checks those that are a whole object.

    Parts that start before any version is known are compared afterwards; the others are pinned by their request. Of a
    whole object the checksums of the parts, summed where they are, make the one that the provider keeps; where they do
    not, parts are fetched again: all of them, then those that came differently the time before, until the object is
    right or comes the same way twice. All but the constructor, ``begin`` and ``give_up`` runs on the transport's
    thread. A subclass says what it begins with and what the result is.

    Args:
        transport: runs the requests.
        dialect: builds them.
        read: the object, and the size and version that it must have, if any.
        most_fetches: how often a part is fetched where the checksum is wrong.
    """

    def __init__(self, transport: Transport, dialect: Dialect, read: Read, *, most_fetches: int) -> None:
        self._transport = transport
        self._dialect = dialect
        self._read = read
        self._size_bytes = read.size_bytes
        self._version = read.version
        self._most_fetches = most_fetches
        self._info: ObjectInfo | None = None
        self._operations: list[Operation[Any]] = []
        self._left = 0
        self._error: BaseException | None = None
        self._checksum: Checksum | None = None
        self._sums: PartSums | None = None
        # Whether the checksum is to be asked for, because ranges do not tell it.
        self._ask = dialect.answers.verifies and not dialect.answers.ranges_tell_checksum
        self._future = _ParallelFuture(self)

    def begin(self) -> Future[T]:
        """Hand the first requests to the transport."""
        raise NotImplementedError

    def give_up(self, error: BaseException) -> None:
        """Fail with ``error`` as soon as no part is on the way any more."""
        if self._error is None:
            self._error = error
        self._transport.drop(self._operations)

    def _result(self, info: ObjectInfo) -> T:
        raise NotImplementedError

    def _check(self, info: ObjectInfo) -> None:
        """Raise what the object's description makes impossible, when it is first seen."""

    def _arrived(self, part: Part) -> None:
        """Note that a part is all there."""

    def _fetch_all(self, parts: Sequence[Part], *, size_bytes: int | None, present: int = 0) -> None:
        """Fetch the parts, but for the first ``present`` of them; ``size_bytes`` is the object's, where it is known."""
        if self._dialect.answers.verifies and size_bytes and _is_whole(parts, size_bytes):
            self._sums = PartSums(parts, self._most_fetches)
        self._fetch(parts[present:])

    def _fetch(self, parts: Sequence[Part]) -> None:
        """Fetch parts and, where it is needed and was not asked for yet, the checksum."""
        operations: list[Operation[Any]] = []
        for part in parts:
            request = self._request(part)
            request.future.add_done_callback(partial(self._part_done, part))
            operations.append(request)
        if self._ask and self._sums is not None:
            self._ask = False
            query = ChecksumQuery(self._dialect, self._read.key, version=self._version)
            query.future.add_done_callback(self._checksum_done)
            operations.insert(0, query)  # Known early, it lets each part be summed as it arrives.
        self._operations, self._left = operations, len(operations)
        self._transport.submit(operations)
        if self._error is not None:  # It was given up meanwhile, by another thread, which did not know of these.
            self._transport.drop(operations)

    def _request(self, part: Part) -> RangeRead:
        flat = len(part.pieces) == 1
        read = Read(
            key=self._read.key,
            start=part.start,
            stop=part.stop,
            into=part.pieces[0][1] if flat else None,
            size_bytes=self._size_bytes,
            version=self._version,
        )
        return RangeRead(self._dialect, read, body=None if flat else ScatteredBody(part.pieces), learn=self._learn)

    def _learn(self, checksum: Checksum) -> None:
        self._checksum = checksum

    def _part_done(self, part: Part, done: Future[ObjectData]) -> None:
        error = done.exception()
        if error is None:
            self._compare(done.result().info)
            if self._error is None:
                try:
                    if self._sums is not None:
                        self._sums.arrived(part, self._checksum)
                    self._arrived(part)
                except Exception as failure:  # noqa: BLE001  # the future's reader gets it
                    self.give_up(failure)
        elif self._error is None:
            self.give_up(error)
        self._one_done()

    def _checksum_done(self, done: Future[tuple[ObjectInfo, Checksum | None]]) -> None:
        error = done.exception()
        if error is None:
            info, self._checksum = done.result()
            self._compare(info)
        elif self._error is None:
            self.give_up(error)
        self._one_done()

    def _compare(self, info: ObjectInfo) -> None:
        if self._info is None:
            self._info, self._version = info, info.version
            for operation in self._operations:
                if isinstance(operation, RangeRead) and operation.version is None:
                    operation.version = info.version
            try:
                self._check(info)
            except Exception as error:  # noqa: BLE001  # the future's reader gets it
                self.give_up(error)
        elif info.version != self._info.version and self._error is None:
            uri = self._dialect.address(self._read.key)
            self.give_up(
                ObjectChangedError(
                    f"get_object {uri}: one range has the version {self._info.version}, another {info.version}: the "
                    "object was overwritten while it was read; read it again",
                    operation="get_object",
                    uri=uri,
                )
            )

    def _one_done(self) -> None:
        """Where nothing is on the way any more, end, or fetch again what may be damaged."""
        self._left -= 1
        if self._left:
            return
        if self._error is None and self._sums is not None and self._checksum is not None:
            try:
                suspects = self._sums.suspects(self._checksum, self._dialect.address(self._read.key))
                if suspects:
                    self._fetch(suspects)
                    return
            except Exception as error:  # noqa: BLE001  # the object is damaged, or no thread is left to ask with
                self._error = error
        self._end()

    def _end(self) -> None:
        """Settle the future."""
        self._operations, self._sums = [], None
        self._future.release()
        if self._error is not None:
            self._future.set_exception(self._error)
            return
        assert self._info is not None
        try:
            result = self._result(self._info)
        except Exception as error:  # noqa: BLE001  # the future's reader gets it
            self._future.set_exception(error)
        else:
            self._future.set_result(result)


def _is_whole(parts: Sequence[Part], size_bytes: int) -> bool:
    """Whether each byte of an object of that size goes to exactly one place."""
    end = 0
    for part in parts:
        if part.start != end or not part.is_gapless:
            return False
        end = part.stop
    return end == size_bytes
