"""The operations of S3 that may need to look again: whether an object or bucket is there, and whether it is ours.

When the answer to a write is lost, the write may have happened. Repeating a plain PUT is harmless. Completing an upload
again finds no upload, and a conditional PUT finds its own object: both then read the object's tag and compare.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

from torchbucket.errors import NotFoundError, PreconditionFailedError, StoreError
from torchbucket.store.dialect import UploadedPart
from torchbucket.store.operation import Again, Answer, Onward, Operation, Request
from torchbucket.store.protocol import ObjectInfo
from torchbucket.store.s3_xml import MalformedAnswerError, text_of

if TYPE_CHECKING:
    from torchbucket.store.s3_dialect import S3Dialect

__all__ = ["CompleteUpload", "HeadObject", "PutObject"]

_MD5_TAG = re.compile(r'"([0-9a-f]{32})"')


class HeadObject(Operation[ObjectInfo]):
    """Describes an object. A 404 to HEAD has no body, so the bucket itself is asked for, to tell which is missing."""

    def __init__(self, dialect: S3Dialect, key: str) -> None:
        super().__init__("head_object", key, dialect.address(key))
        self._dialect = dialect
        self._ask_bucket = False

    def build(self) -> Request:
        """Ask for the object or, in the second step, for the bucket."""
        return self._dialect.bucket_request() if self._ask_bucket else self._dialect.head_request(self.key)

    def finish(self, lines: list[bytes]) -> ObjectInfo:
        """Read the description."""
        answer = Answer(lines)
        if self._ask_bucket:
            if answer.status == 404:
                raise self._dialect.missing_bucket(self.name)
            answer.status = 404
        elif answer.status == 200:
            return self._dialect.info(self.key, answer, int(answer.headers.get("content-length", "0")))
        elif answer.status == 404 and not self._dialect.bucket_seen:
            self._ask_bucket = True
            raise Onward
        raise self._dialect.failure(self.name, self.key, answer)


class _Publication(Operation[ObjectInfo]):
    """A write that, where its answer was lost and a second try is refused, compares the object that is there."""

    def __init__(self, name: str, dialect: S3Dialect, key: str) -> None:
        super().__init__(name, key, dialect.address(key))
        self._dialect = dialect
        self._lost = False
        self._refusal: StoreError | None = None

    def build(self) -> Request:
        """Write or, in the second step, describe what is there."""
        if self._refusal is not None:
            return self._dialect.head_request(self.key, checksums=True)
        return self._write_request()

    def finish(self, lines: list[bytes]) -> ObjectInfo:
        """Return the description of what was written."""
        answer = Answer(lines, self.body())
        if self._refusal is None:
            try:
                return self._written(answer)
            except Again as again:
                # A server's error may hide that it did the work; being told to slow down does not.
                self._lost = self._lost or again.error.status not in (429, 503)
                raise
            except (PreconditionFailedError, NotFoundError) as refusal:
                if not self._lost or refusal.code == "NoSuchBucket":
                    raise
                self._refusal = refusal
                raise Onward from refusal
        if answer.status == 200:
            info = self._dialect.info(self.key, answer, int(answer.headers.get("content-length", "0")))
            if self._is_ours(info, answer):
                return info
        elif answer.status != 404:
            failure = self._dialect.failure(self.name, self.key, answer)
            if isinstance(failure, Again):
                raise failure
        raise self._refusal

    def interrupted(self, lines: list[bytes]) -> Exception | None:
        """Note that the answer was lost."""
        self._lost = True
        return super().interrupted(lines)

    def _write_request(self) -> Request:
        raise NotImplementedError

    def _written(self, answer: Answer) -> ObjectInfo:
        raise NotImplementedError

    def _is_ours(self, info: ObjectInfo, answer: Answer) -> bool:
        raise NotImplementedError


class PutObject(_Publication):
    """Writes an object in one request.

    With ``if_absent`` and a lost answer, an object that is there with the same size and checksum counts as written: a
    rival that wrote the very same bytes at the same moment cannot be told apart.
    """

    def __init__(self, dialect: S3Dialect, key: str, body: memoryview, checksum: str, *, if_absent: bool) -> None:
        super().__init__("put_object", dialect, key)
        self._body = body
        self._checksum = checksum
        self._if_absent = if_absent

    def _write_request(self) -> Request:
        return self._dialect.put_request(self.key, self._body, self._checksum, if_absent=self._if_absent)

    def _written(self, answer: Answer) -> ObjectInfo:
        if answer.status not in (200, 201, 204):
            raise self._dialect.failure(self.name, self.key, answer)
        self._dialect.check_stored(self.name, self.key, answer, self._checksum)
        return self._dialect.info(self.key, answer, len(self._body))

    def _is_ours(self, info: ObjectInfo, answer: Answer) -> bool:
        if info.size_bytes != len(self._body):
            return False
        stored = answer.headers.get("x-amz-checksum-crc32")
        match = _MD5_TAG.fullmatch(info.version or "")
        if match is not None:
            return match[1] == hashlib.md5(self._body, usedforsecurity=False).hexdigest()
        return stored == self._checksum


class CompleteUpload(_Publication):
    """Publishes an upload; an answer of status 200 may still hold an error, or nothing."""

    def __init__(
        self, dialect: S3Dialect, key: str, upload_id: str, parts: list[UploadedPart], *, if_absent: bool
    ) -> None:
        super().__init__("complete_upload", dialect, key)
        self._upload_id = upload_id
        self._parts = parts
        self._if_absent = if_absent

    def _write_request(self) -> Request:
        return self._dialect.complete_request(self.key, self._upload_id, self._parts, if_absent=self._if_absent)

    def _written(self, answer: Answer) -> ObjectInfo:
        size_bytes = sum(part.size_bytes for part in self._parts)
        if answer.status == 200:
            try:
                tag = text_of(answer.body, "CompleteMultipartUploadResult", "ETag")
            except MalformedAnswerError as error:
                failure = self._dialect.failure(self.name, self.key, answer)
                if isinstance(failure, StoreError) and failure.code is None:
                    message = f"{self.name} {self.uri}: the answer has status 200 but no result: {error}"
                    raise Again(StoreError(message, operation=self.name, uri=self.uri, status=200)) from error
                raise failure from error
            return ObjectInfo(key=self.key, size_bytes=size_bytes, version=tag)
        raise self._dialect.failure(self.name, self.key, answer)

    def _is_ours(self, info: ObjectInfo, answer: Answer) -> bool:  # noqa: ARG002  # the tag says enough
        if info.size_bytes != sum(part.size_bytes for part in self._parts):
            return False
        digests = [_MD5_TAG.fullmatch(part.tag) for part in self._parts]
        if all(digests):
            joined = b"".join(bytes.fromhex(digest[1]) for digest in digests if digest is not None)
            expected = hashlib.md5(joined, usedforsecurity=False).hexdigest()
            return info.version == f'"{expected}-{len(self._parts)}"'
        # Under a KMS key a tag is no digest; size and number of parts must do.
        return (info.version or "").endswith(f'-{len(self._parts)}"')
