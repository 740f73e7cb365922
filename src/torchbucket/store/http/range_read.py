"""The read of one range by one request, going on where it broke off."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from torchbucket.errors import (
    NotFoundError,
    ObjectChangedError,
    PreconditionFailedError,
    TransportError,
    TruncatedError,
)
from torchbucket.store.base import check_same, fit
from torchbucket.store.http.checksums import Checksum, mismatch
from torchbucket.store.http.dialect import Dialect
from torchbucket.store.protocol import ObjectData, ObjectInfo
from torchbucket.store.transport.operation import Again, Answer, HedgedOperation, Onward, Request, Sink

__all__ = ["RangeRead"]

_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")
_UNSATISFIED = re.compile(r"bytes \*/(\d+)")

# An error's body that is longer is not read to its end. The longest seen from a provider is below 2 KiB.
_ERROR_BODY_BYTES: Final = 64 << 10

# An answer that goes on for more than what was asked for is broken off where that costs less than to read it: a new
# connection costs about two round trips, in which such a number of bytes would arrive. Source: 100 MiB/s over 20 ms.
_UNWANTED_BYTES: Final = 2 << 20


@dataclass(frozen=True, slots=True)
class _Placed:
    """Where an answer's body lies in the object, and what it says of the object."""

    first: int
    info: ObjectInfo


class RangeRead(HedgedOperation[ObjectData]):
    """Reads the bytes ``[start, stop)`` of an object, of one version, whatever breaks on the way.

    After a break the next attempt asks for the rest only, pinned to the version of what arrived. Bytes go straight into
    ``target``; without one they are collected and joined once. Where that is the whole object and the provider tells
    its checksum, they are compared with it, and fetched again from the beginning where they differ.

    Args:
        dialect: builds the requests.
        key: the object's key.
        start: first byte.
        stop: end of the range, or None for the object's.
        target: flat writable memory; at least as long as what the range holds.
        size_bytes: the size that the object must have, or None.
        version: the version that the object must have, or None.
        whole: ask for the object without a range, where ``start`` is 0, since the answer tells more then. Where it goes
            on beyond ``stop``, it is cut there, or taken to its end where that is near.
        told: called with the checksum of the whole object, on the transport's thread, when an answer tells it.
    """

    def __init__(
        self,
        dialect: Dialect,
        key: str,
        *,
        start: int,
        stop: int | None,
        target: memoryview | None = None,
        size_bytes: int | None = None,
        version: str | None = None,
        whole: bool = False,
        told: Callable[[Checksum], None] | None = None,
    ) -> None:
        super().__init__("get_object", key, dialect.address(key))
        self._dialect = dialect
        self._start = start
        self._stop = stop
        self._target = target
        self._size_bytes = size_bytes
        self.version = version
        self._whole = whole
        self._told = told
        self._checksum: Checksum | None = None  # of the whole object
        self._pinned_here = False
        self._describe_only = (stop is not None and stop <= start) or (size_bytes is not None and start >= size_bytes)
        self._received = 0  # bytes that are kept, from all attempts
        self._kept: list[bytes] = []  # those bytes, without a target
        self._lines: list[bytes] = []
        self._placed: _Placed | None = None
        self._admitted = False
        self._skip = 0
        self._length = 0
        self._error_body = bytearray()
        self._failure: Exception | None = None

    def build(self) -> Request:
        """Ask for what is still missing; a range that holds no bytes only has the object described."""
        if self._describe_only:
            return self._dialect.head_request(self.key, version=self.version)
        start = self._start + self._received
        whole = self._whole and not self._received
        return self._dialect.get_request(
            self.key, start=None if whole else start, stop=self._stop, version=self.version
        )

    def sink(self, lines: list[bytes]) -> Sink:
        """Collect the chunks, or store each in the target once the headers are seen to fit."""
        self._lines, self._placed, self._admitted, self._failure = lines, None, False, None
        self.satisfied = False
        if self._target is not None:
            self._error_body = bytearray()
            return self._store
        collect = super().sink(lines)
        return self._collect if self._whole and self._stop is not None and not self._received else collect

    def finish(self, lines: list[bytes]) -> ObjectData:
        """Return the bytes if all have arrived, of the right version."""
        answer = Answer(lines)
        if answer.status not in (200, 206):
            answer.body = bytes(self._error_body) if self._target is not None else self.body()
            raise self._judge_failure(answer)
        if self._describe_only:
            info = self._dialect.info(self.key, answer, int(answer.headers.get("content-length", "0")))
            self._check(info)
            empty = b"" if self._target is None else self._target[:0]
            return ObjectData(info=info, start=self._start, data=empty)
        placed = self._placed or self._place(answer)
        self._keep(placed)
        wanted = self._length_within(placed.info)
        if self._received < wanted:
            raise Again(
                TruncatedError(
                    f"get_object {self.uri}: {self._received} of the {wanted} bytes at {self._start} arrived; the "
                    "server ended its answer early",
                    operation=self.name,
                    uri=self.uri,
                )
            )
        data: bytes | memoryview
        if self._target is not None:
            data = self._target[:wanted]
        else:
            data = self._kept[0] if len(self._kept) == 1 else b"".join(self._kept)
        self._kept = []
        if self._checksum is not None and wanted == placed.info.size_bytes:
            self._verify(self._checksum, data)
        return ObjectData(info=placed.info, start=self._start, data=data)

    def _verify(self, checksum: Checksum, data: bytes | memoryview) -> None:
        """Raise ``Again``, to begin anew, unless the whole object's bytes are those that the provider keeps."""
        computed = checksum.algorithm.compute(data)
        if computed != checksum.value:
            self._received = 0
            raise Again(mismatch(self.uri, checksum, computed))

    def interrupted(self, lines: list[bytes]) -> Exception | None:
        """Keep what arrived of a good answer, so that the next attempt asks for the rest only."""
        if self._failure is not None:
            return self._failure
        if self._target is None and self._chunks and not self._describe_only:
            answer = Answer(lines)
            if answer.status == 206 or (answer.status == 200 and "content-length" in answer.headers):
                try:
                    self._keep(self._place(answer))
                except Again as again:
                    return again
                except Exception as error:  # noqa: BLE001  # the transport reports it
                    return error
        return None

    def twin(self) -> RangeRead | None:
        """Ask for the same bytes into memory of its own; None where some are here or only a description is wanted."""
        if self._received or self._describe_only:
            return None
        return RangeRead(
            self._dialect,
            self.key,
            start=self._start,
            stop=self._stop,
            size_bytes=self._size_bytes,
            version=self.version,
            whole=self._whole,
            told=self._told,
        )

    def adopt(self, result: ObjectData) -> ObjectData:
        """Take over what a twin has read, in one copy where there is a target."""
        self._kept = []
        if self._target is None:
            return result
        data = fit(self._target, len(result.data))
        data[:] = result.data
        return replace(result, data=data)

    def _collect(self, chunk: bytes) -> int | None:
        """Take a chunk of an answer that may go on beyond the range, and end it there."""
        self._chunks.append(chunk)
        self._length += len(chunk)
        if self._stop is not None and self._length > self._stop and self._goes_on(Answer(self._lines)):
            return -1
        return None

    def _goes_on(self, answer: Answer) -> bool:
        """Whether an answer, all of whose wanted bytes are here, has so many more that it is better to end it."""
        self.satisfied = answer.status == 200 and self._is_far_from(int(answer.headers.get("content-length", "0")))
        return self.satisfied

    def _is_far_from(self, size_bytes: int) -> bool:
        return self._stop is not None and size_bytes - self._stop > _UNWANTED_BYTES

    def _store(self, chunk: bytes) -> int | None:
        """Take a chunk from libcurl and copy it to its place in the target."""
        try:
            if not self._admitted:
                self._admitted = True
                self._admit(Answer(self._lines))
            if self._placed is None:
                self._error_body += chunk[: _ERROR_BODY_BYTES - len(self._error_body)]
                return None
            piece: bytes | memoryview = chunk
            if self._skip:
                skipped = min(self._skip, len(chunk))
                self._skip -= skipped
                piece = memoryview(chunk)[skipped:]
            stop = self._received + len(piece)
            assert self._target is not None
            if stop > self._length:
                piece = piece[: self._length - self._received]
                self._target[self._received : self._length] = piece
                self._received = self._length
                return -1 if self._goes_on(Answer(self._lines)) else None
            self._target[self._received : stop] = piece
            self._received = stop
        except Exception as error:  # noqa: BLE001  # must not reach libcurl; `interrupted` reports it
            self._failure = error
            return -1
        return None

    def _admit(self, answer: Answer) -> None:
        """Decide, before the first byte is stored, that this answer's bytes belong into the target."""
        if answer.status not in (200, 206):
            return
        placed = self._place(answer)
        assert self._target is not None
        self._length = self._length_within(placed.info)
        fit(self._target, self._length)
        self._skip = self._start + self._received - placed.first
        self._placed = placed

    def _place(self, answer: Answer) -> _Placed:
        """Find where the body lies and check that it is what was asked for."""
        first = 0
        if answer.status == 206:
            match = _CONTENT_RANGE.fullmatch(answer.headers.get("content-range", ""))
            if match is None or int(match[1]) != self._start + self._received:
                raise self._unusable(answer)
            first, size_bytes = int(match[1]), int(match[3])
        else:
            size_bytes = self._whole_length(answer)
        info = self._dialect.info(self.key, answer, size_bytes)
        self._check(info)
        if self._whole and answer.status == 200 and not self._is_far_from(size_bytes):
            self._stop = None
        if self._start == 0 or self._told is not None:
            checksum = self._dialect.checksum(answer)
            if checksum is not None:
                self._checksum = checksum
                if self._told is not None:
                    self._told(checksum)
        return _Placed(first, info)

    def _whole_length(self, answer: Answer) -> int:
        length = answer.headers.get("content-length")
        if length is not None:
            return int(length)
        if self._target is None and "chunked" in answer.headers.get("transfer-encoding", ""):
            return sum(map(len, self._chunks))
        # Neither whether all of it came could be told, nor how much memory it needs.
        raise Again(
            TransportError(
                f"get_object {self.uri}: the answer does not tell its length; is there a proxy that changes it?",
                operation=self.name,
                uri=self.uri,
                status=answer.status,
            )
        )

    def _check(self, info: ObjectInfo) -> None:
        check_same(self.uri, info, size_bytes=self._size_bytes, version=self.version)
        if self.version is None and info.version is not None:
            self.version, self._pinned_here = info.version, True
        self._size_bytes = info.size_bytes

    def _keep(self, placed: _Placed) -> None:
        """Without a target, count the attempt's chunks in, less what a whole answer has before and after the range."""
        if self._target is not None:
            return
        body = self.body()
        self._chunks = []
        before = self._start + self._received - placed.first
        left = self._length_within(placed.info) - self._received
        if before or len(body) > left:
            body = body[before : before + left]
        if body:
            self._kept.append(body)
            self._received += len(body)

    def _length_within(self, info: ObjectInfo) -> int:
        stop = info.size_bytes if self._stop is None else min(self._stop, info.size_bytes)
        return max(0, stop - self._start)

    def _unusable(self, answer: Answer) -> Again:
        return Again(
            TransportError(
                f"get_object {self.uri}: asked for the bytes from {self._start + self._received}, the answer has "
                f"status {answer.status} and Content-Range {answer.headers.get('content-range')!r}; the server or a "
                "proxy mixes up ranges",
                operation=self.name,
                uri=self.uri,
                status=answer.status,
            )
        )

    def _judge_failure(self, answer: Answer) -> Exception:
        if answer.status == 416 and not self._describe_only:
            # Nothing at or after the start: the object is shorter, or empty. A HEAD tells size and version.
            match = _UNSATISFIED.fullmatch(answer.headers.get("content-range", ""))
            if match is None or int(match[1]) <= self._start + self._received:
                if self._received:
                    return self._changed(answer)
                self._describe_only = True
                return Onward()
        failure = self._dialect.failure(self.name, self.key, answer)
        if isinstance(failure, PreconditionFailedError) or (isinstance(failure, NotFoundError) and self._pinned_here):
            return self._changed(answer)
        return failure

    def _changed(self, answer: Answer) -> ObjectChangedError:
        return ObjectChangedError(
            f"get_object {self.uri}: the object no longer has the version {self.version}: it was overwritten or "
            "removed while it was read; list or head it again",
            operation=self.name,
            uri=self.uri,
            status=answer.status,
        )
