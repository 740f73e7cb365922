"""The operations of S3 that may need to look again: whether an object or bucket is there, and whether it is ours."""

from __future__ import annotations

import hashlib
import re

from torchbucket.errors import ChecksumError
from torchbucket.store.http.checksums import Checksum
from torchbucket.store.http.confirmed_write import UploadCompletion
from torchbucket.store.http.refusal import Refusal
from torchbucket.store.http.xml import document, fields_of, required
from torchbucket.store.protocol import ObjectInfo
from torchbucket.store.s3.answers import S3Answers
from torchbucket.store.s3.requests import S3Requests
from torchbucket.store.transport.operation import Answer, NextRequest, Operation, Request

__all__ = ["CompleteUpload", "HeadObject"]

_MD5_TAG = re.compile(r'"([0-9a-f]{32})"')


class HeadObject(Operation[ObjectInfo]):
    """Describes an object. A 404 to HEAD has no body, so the bucket itself is asked for, to tell which is missing."""

    def __init__(self, requests: S3Requests, answers: S3Answers, key: str) -> None:
        super().__init__("head_object", key, answers.address(key))
        self._requests = requests
        self._answers = answers
        self._ask_bucket = False

    def build(self) -> Request:
        """Ask for the object or, in the second step, for the bucket."""
        return self._requests.bucket_request() if self._ask_bucket else self._requests.head_request(self.key)

    def finish(self, lines: list[bytes]) -> ObjectInfo:
        answer = Answer(lines)
        if self._ask_bucket:
            if answer.status == 404:
                raise Refusal(self.name, self.uri, self._answers.uri, answer, "NoSuchBucket", None).missing_bucket()
            answer.status = 404
        elif answer.status == 404 and not self._answers.bucket_seen:
            self._ask_bucket = True
            raise NextRequest
        return self._answers.described(self.name, self.key, answer)


class CompleteUpload(UploadCompletion):
    """Makes an object of an upload; an answer of status 200 may still hold an error, or nothing."""

    def written(self, answer: Answer) -> ObjectInfo:
        return self.answers.read(self.name, self.key, answer, self._result)

    def _result(self, answer: Answer) -> ObjectInfo:
        result = fields_of(document(answer.body, "CompleteMultipartUploadResult"))
        tag = required(result, "ETag")
        algorithm = self.answers.upload_sum
        stated = algorithm.read(result.get(self.requests.sum_element, ""))
        if stated is not None and result.get("ChecksumType") == "FULL_OBJECT" and self.checksum not in (None, stated):
            assert self.checksum is not None
            raise ChecksumError(
                f"{self.name} {self.uri}: the parts make an object with the {algorithm.name} {self.checksum.text}, "
                f"the one that is there has {stated.text}: it was damaged where it is stored; write it anew",
                operation=self.name,
                uri=self.uri,
                algorithm=algorithm.name,
                expected=self.checksum.text,
                computed=stated.text,
            )
        return ObjectInfo(key=self.key, size_bytes=self.size_bytes, version=tag)

    def is_ours(self, info: ObjectInfo, checksum: Checksum | None) -> bool:
        """Whether the object has the bytes of the parts: by its checksum, else by the MD5 of the parts' MD5s.

        Under a KMS key a tag is no digest. Where there is no checksum either, nobody can tell, so it is not.
        """
        if info.size_bytes != self.size_bytes:
            return False
        if checksum is not None and self.checksum is not None:
            return checksum == self.checksum
        digests = [_MD5_TAG.fullmatch(part.tag) for part in self.parts]
        joined = b"".join(bytes.fromhex(digest[1]) for digest in digests if digest is not None)
        return info.version == f'"{hashlib.md5(joined, usedforsecurity=False).hexdigest()}-{len(digests)}"'
