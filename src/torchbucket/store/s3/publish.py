"""The operations of S3 that may need to look again: whether an object or bucket is there, and whether it is ours."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from torchbucket.errors import ChecksumError, NotFoundError, StoreError
from torchbucket.store.conditions import Condition, unmet
from torchbucket.store.http.checksums import Algorithm, Checksum
from torchbucket.store.http.dialect import UploadedPart
from torchbucket.store.http.publication import Publication
from torchbucket.store.http.xml import MalformedAnswerError, fields_of, parsed, text_of
from torchbucket.store.protocol import ObjectInfo
from torchbucket.store.transport.operation import Again, Answer, Onward, Operation, Request

if TYPE_CHECKING:
    from torchbucket.store.s3.dialect import S3Dialect

__all__ = ["CompleteUpload", "HeadObject", "PutObject", "combined"]

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


class _S3Publication(Publication):
    """A publication that looks by HEAD."""

    def __init__(self, name: str, dialect: S3Dialect, key: str, condition: Condition | None) -> None:
        super().__init__(name, key, dialect.address(key), condition)
        self._dialect = dialect

    def _look_request(self) -> Request:
        return self._dialect.head_request(self.key, checksums=True)

    def _found_ours(self, answer: Answer) -> ObjectInfo | None:
        if answer.status == 200:
            info = self._dialect.info(self.key, answer, int(answer.headers.get("content-length", "0")))
            return info if self._is_ours(info, answer) else None
        if answer.status != 404:
            failure = self._dialect.failure(self.name, self.key, answer)
            if isinstance(failure, Again):
                raise failure
        return None

    def _refused(self, failure: Exception) -> Exception:
        # A key that must have a version and has no object at all is answered 404.
        # Source: S3 user guide, "Add preconditions to S3 operations with conditional requests".
        missing = isinstance(failure, NotFoundError) and failure.code in (None, "NoSuchKey")
        if self._condition is not None and missing:
            return unmet(self.name, self.uri, self._condition)
        return super()._refused(failure)

    def _is_ours(self, info: ObjectInfo, answer: Answer) -> bool:
        raise NotImplementedError


class PutObject(_S3Publication):
    """Writes an object in one request.

    On a condition and with a lost answer, an object that is there with the same size and checksum counts as written: a
    rival that wrote the very same bytes at the same moment cannot be told apart.
    """

    def __init__(
        self, dialect: S3Dialect, key: str, body: memoryview, checksum: str, *, condition: Condition | None
    ) -> None:
        super().__init__("put_object", dialect, key, condition)
        self._body = body
        self._checksum = checksum

    def _write_request(self) -> Request:
        return self._dialect.put_request(self.key, self._body, self._checksum, condition=self._condition)

    def _written(self, answer: Answer) -> ObjectInfo:
        if answer.status not in (200, 201, 204):
            raise self._refused(self._dialect.failure(self.name, self.key, answer))
        self._dialect.check_stored(self.name, self.key, answer, self._checksum)
        return self._dialect.info(self.key, answer, len(self._body))

    def _is_ours(self, info: ObjectInfo, answer: Answer) -> bool:
        if info.size_bytes != len(self._body):
            return False
        stored = answer.headers.get(self._dialect.sum_header)
        match = _MD5_TAG.fullmatch(info.version or "")
        if match is not None:
            return match[1] == hashlib.md5(self._body, usedforsecurity=False).hexdigest()
        return stored == self._checksum


class CompleteUpload(_S3Publication):
    """Publishes an upload; an answer of status 200 may still hold an error, or nothing."""

    def __init__(
        self, dialect: S3Dialect, key: str, upload_id: str, parts: list[UploadedPart], *, condition: Condition | None
    ) -> None:
        super().__init__("complete_upload", dialect, key, condition)
        self._upload_id = upload_id
        self._parts = parts

    def _write_request(self) -> Request:
        return self._dialect.complete_request(self.key, self._upload_id, self._parts, condition=self._condition)

    def _written(self, answer: Answer) -> ObjectInfo:
        size_bytes = sum(part.size_bytes for part in self._parts)
        if answer.status == 200:
            try:
                tag = text_of(answer.body, "CompleteMultipartUploadResult", "ETag")
                self._compare(fields_of(parsed(answer.body)))
            except MalformedAnswerError as error:
                failure = self._dialect.failure(self.name, self.key, answer)
                if isinstance(failure, StoreError) and failure.code is None:
                    message = f"{self.name} {self.uri}: the answer has status 200 but no result: {error}"
                    raise Again(StoreError(message, operation=self.name, uri=self.uri, status=200)) from error
                raise failure from error
            return ObjectInfo(key=self.key, size_bytes=size_bytes, version=tag)
        raise self._refused(self._dialect.failure(self.name, self.key, answer))

    def _compare(self, result: dict[str, str]) -> None:
        """Raise where the object has another checksum than follows from its parts'."""
        algorithm = self._dialect.upload_sum
        stated = algorithm.read(result.get(self._dialect.sum_element, ""))
        expected = combined(algorithm, self._parts)
        if stated is None or expected is None or result.get("ChecksumType") != "FULL_OBJECT" or stated == expected:
            return
        raise ChecksumError(
            f"{self.name} {self.uri}: the parts make an object with the {algorithm.name} {expected.text}, the one that "
            f"is there has {stated.text}: it was damaged where it is stored; write it anew",
            operation=self.name,
            uri=self.uri,
            algorithm=algorithm.name,
            expected=expected.text,
            computed=stated.text,
        )

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


def combined(algorithm: Algorithm, parts: Iterable[UploadedPart]) -> Checksum | None:
    """The checksum of the object that parts make, from theirs; None where that of any is not known."""
    if algorithm.combine is None:
        return None
    whole = 0
    for part in parts:
        checksum = algorithm.read(part.checksum or "")
        if checksum is None:
            return None
        whole = algorithm.combine(whole, checksum.value, part.size_bytes)
    return Checksum(algorithm, whole)
