"""The read of one range by one request, going on where it broke off."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from torchbucket.errors import (
    NotFoundError,
    ObjectChangedError,
    PreconditionFailedError,
    TransportError,
    TruncatedError,
)
from torchbucket.store.arguments import first_bytes
from torchbucket.store.base import changed, check_same
from torchbucket.store.http.body import Body, FlatBody, new_body
from torchbucket.store.http.checksums import Checksum, mismatch
from torchbucket.store.http.dialect import Dialect
from torchbucket.store.protocol import ObjectData, ObjectInfo, Read
from torchbucket.store.transport.operation import Again, Answer, HedgedOperation, NextRequest, Request, Sink

__all__ = ["RangeRead"]

_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")
_UNSATISFIED = re.compile(r"bytes \*/(\d+)")

# An error's body that is longer is not read to its end. The longest seen from a provider is below 2 KiB.
_ERROR_BODY_BYTES: Final = 64 << 10

# An answer that goes on for more than what was asked for is broken off where that costs less than to read it: a new
# connection costs about two round trips, in which such a number of bytes would arrive. Source: 100 MiB/s over 20 ms.
_UNWANTED_BYTES: Final = 2 << 20


class RangeRead(HedgedOperation[ObjectData]):
    """Reads the bytes of a range, of one version, whatever breaks on the way.

    After a break the next attempt asks for the rest only, pinned to the version of what arrived. Only bytes of the
    range are kept, each where it belongs, whatever else a server sends. Where they are the whole object and the
    provider tells its checksum, they are compared with it, and fetched again from the beginning where they differ.

    Args:
        dialect: builds the requests.
        read: what to read.
        body: where the bytes go, instead of ``read.into`` or memory of their own.
        whole: ask for the object without a range, where ``read.start`` is 0, since the answer tells more then. Where it
            goes on beyond ``read.stop``, it is cut there, or taken to its end where that is near.
        learn: called with the checksum of the whole object, on the transport's thread, when an answer tells it.
    """

    _pinned_here = False
    _received = 0  # bytes in the body, from all attempts
    _checksum: Checksum | None = None  # of the whole object
    # Of the attempt's answer, once its headers are here.
    _answer: Answer | None = None
    _info: ObjectInfo | None = None
    _length = 0  # of the range in this object
    _skip = 0
    _error_body = b""
    _failure: Exception | None = None

    def __init__(
        self,
        dialect: Dialect,
        read: Read,
        *,
        body: Body | None = None,
        whole: bool = False,
        learn: Callable[[Checksum], None] | None = None,
    ) -> None:
        super().__init__("get_object", read.key, dialect.address(read.key))
        self._dialect = dialect
        self._read = read
        self._stop = read.stop
        self._whole = whole
        self._learn = learn
        self.version = read.version
        self._size_bytes = read.size_bytes
        self._describe_only = read.length_bytes == 0
        self._given_body = self._body = body

    def build(self) -> Request:
        """Ask for what is still missing; a range that holds no bytes only has the object described."""
        if self._describe_only:
            return self._dialect.requests.head_request(self.key, version=self.version)
        whole = self._whole and not self._received
        start = None if whole else self._read.start + self._received
        return self._dialect.requests.get_request(self.key, start=start, stop=self._stop, version=self.version)

    def sink(self, lines: list[bytes]) -> Sink:
        """Put each chunk where it belongs, once the headers are seen to fit."""
        self._lines, self._answer, self._info, self._failure = lines, None, None, None
        self._error_body = b""
        self.satisfied = False
        return self._receive

    def finish(self, lines: list[bytes]) -> ObjectData:
        """Return the bytes if all have arrived, of the right version."""
        answer = self._answer or Answer(lines)
        if answer.status not in (200, 206):
            answer.body = self._error_body
            raise self._judge_failure(answer)
        if self._describe_only:
            info = self._dialect.answers.described(self.name, self.key, answer)
            self._check(info)
            into = self._read.into
            return ObjectData(info=info, start=self._read.start, data=b"" if into is None else into[:0])
        info = self._info or self._admit(answer)
        if self._received < self._length:
            raise Again(
                TruncatedError(
                    f"get_object {self.uri}: {self._received} of the {self._length} bytes at {self._read.start} "
                    "arrived; the server ended its answer early",
                    operation=self.name,
                    uri=self.uri,
                )
            )
        assert self._body is not None
        data = self._body.data()
        if self._checksum is not None and len(data) == info.size_bytes:
            self._verify(self._checksum, data)
        return ObjectData(info=info, start=self._read.start, data=data)

    def interrupted(self, lines: list[bytes]) -> Exception | None:  # noqa: ARG002  # as the base has it
        """Tell what made the sink end the attempt, if it did; what arrived before is kept."""
        failure, self._failure = self._failure, None
        return failure

    def twin(self) -> RangeRead | None:
        """Ask for the same bytes into memory of its own; None where some are here or only a description is wanted."""
        if self._received or self._describe_only:
            return None
        read = replace(self._read, into=None, version=self.version)
        return RangeRead(self._dialect, read, whole=self._whole, learn=self._learn)

    def adopt(self, result: ObjectData) -> ObjectData:
        """Take over what a twin has read, in one copy where there is memory that it must be in."""
        body = self._given_body
        if self._read.into is not None:
            body = FlatBody(first_bytes(self._read.into, len(result.data)))
        if body is None:
            return result
        body.put(0, memoryview(result.data))
        return replace(result, data=body.data())

    def _receive(self, chunk: bytes) -> int | None:
        """Take a chunk from libcurl."""
        try:
            if self._answer is None:
                self._answer = Answer(self._lines)
                if self._answer.status in (200, 206):
                    self._admit(self._answer)
            body, received = self._body, self._received
            if self._info is None or body is None:
                self._error_body += chunk[: _ERROR_BODY_BYTES - len(self._error_body)]
            elif self._skip or received + len(chunk) > self._length:
                return self._receive_some(chunk, body, self._info)
            else:
                body.put(received, chunk)
                self._received = received + len(chunk)
        except Exception as error:  # noqa: BLE001  # must not reach libcurl; `interrupted` reports it
            self._failure = error
            return -1
        return None

    def _receive_some(self, chunk: bytes, body: Body, info: ObjectInfo) -> int | None:
        """Take what a chunk has of the range; end the attempt where the answer goes on for long after it."""
        skipped = min(self._skip, len(chunk))
        self._skip -= skipped
        piece = memoryview(chunk)[skipped:][: self._length - self._received]
        if piece:
            body.put(self._received, piece)
            self._received += len(piece)
        if skipped + len(piece) == len(chunk):
            return None
        self.satisfied = info.size_bytes - self._read.start - self._length > _UNWANTED_BYTES
        return -1 if self.satisfied else None

    def _admit(self, answer: Answer) -> ObjectInfo:
        """Decide, before the first byte is kept, that this answer is what was asked for, and where its bytes go."""
        position, first = self._read.start + self._received, 0
        if answer.status == 206:
            match = _CONTENT_RANGE.fullmatch(answer.headers.get("content-range", ""))
            if match is None or int(match[1]) != position:
                raise self._unusable(answer)
            first = position
            info = self._dialect.answers.info(self.key, answer, int(match[3]))
        else:
            info = self._dialect.answers.described(self.name, self.key, answer)
        self._check(info)
        if self._stop is not None and self._whole and info.size_bytes - self._stop <= _UNWANTED_BYTES:
            self._stop = None
        stop = info.size_bytes if self._stop is None else min(self._stop, info.size_bytes)
        self._length = max(0, stop - self._read.start)
        if self._body is None:
            into = self._read.into
            self._body = new_body(self._length) if into is None else FlatBody(first_bytes(into, self._length))
        self._skip = position - first
        checksum = self._dialect.answers.checksum(answer)
        if checksum is not None:
            self._checksum = checksum
            if self._learn is not None:
                self._learn(checksum)
        self._info = info
        return info

    def _check(self, info: ObjectInfo) -> None:
        check_same(self.uri, info, size_bytes=self._size_bytes, version=self.version)
        if self.version is None and info.version is not None:
            self.version, self._pinned_here = info.version, True
        self._size_bytes = info.size_bytes

    def _verify(self, checksum: Checksum, data: bytes | memoryview) -> None:
        """Raise ``Again``, to begin anew, unless the whole object's bytes are those that the provider keeps."""
        computed = checksum.algorithm.compute(data)
        if computed != checksum.value:
            self._received = 0
            raise Again(mismatch(self.uri, checksum, computed))

    def _unusable(self, answer: Answer) -> Again:
        return Again(
            TransportError(
                f"get_object {self.uri}: asked for the bytes from {self._read.start + self._received}, the answer has "
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
            if match is None or int(match[1]) <= self._read.start + self._received:
                if self._received:
                    return self._changed(answer)
                self._describe_only = True
                return NextRequest()
        failure = self._dialect.answers.failure(self.name, self.key, answer)
        if isinstance(failure, PreconditionFailedError) or (isinstance(failure, NotFoundError) and self._pinned_here):
            return self._changed(answer)
        return failure

    def _changed(self, answer: Answer) -> ObjectChangedError:
        return changed(self.name, self.uri, self.version, answer.status)
