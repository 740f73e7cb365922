"""The operations of S3 for one bucket: what the answers to its requests mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from torchbucket.config import StoreConfig
from torchbucket.errors import NotFoundError, TransportError, UnsupportedError
from torchbucket.store.conditions import Condition
from torchbucket.store.http.checksums import ALGORITHMS, Checksum
from torchbucket.store.http.dates import http_seconds
from torchbucket.store.http.dialect import ListPage, UploadedPart, UploadPage, is_gone
from torchbucket.store.http.publication import ConditionalDelete
from torchbucket.store.http.xml import MalformedAnswerError, text_of, upload_page
from torchbucket.store.protocol import ObjectInfo
from torchbucket.store.s3.errors import s3_failure
from torchbucket.store.s3.listing import list_page
from torchbucket.store.s3.publish import CompleteUpload, HeadObject, PutObject
from torchbucket.store.s3.requests import FULL_OBJECT, S3Requests
from torchbucket.store.transport.operation import Again, Answer, Call, Operation, Request

__all__ = ["S3Dialect"]

T = TypeVar("T")

_GIB: Final = 1 << 30

_CHECKSUM_HEADERS: Final = tuple((f"x-amz-checksum-{name}", algorithm) for name, algorithm in ALGORITHMS.items())


class S3Dialect(S3Requests):
    """Speaks S3 to one bucket; versions are ETags.

    *Source* of the limits: S3 user guide, "Multipart upload limits" and CopyObject's page.
    """

    largest_copy_bytes = 5 * _GIB
    largest_part_bytes = 5 * _GIB
    most_parts = 10_000
    ranges_tell_checksum = False
    conditional_uploads = True
    most_sources = 0

    def __init__(self, bucket: str, config: StoreConfig) -> None:
        super().__init__(bucket, config)
        self.bucket_seen = False

    def checksum(self, answer: Answer) -> Checksum | None:
        """The checksum of the whole object that an answer tells, the cheapest where there are several.

        What comes with a range is of a part of an upload where it fits one, and looks like an object's, so it is left
        alone; so is the checksum of the checksums of parts. *Source*: S3 user guide, "Checking object integrity",
        "Part-level checksums", and https://github.com/boto/botocore/issues/3346.
        """
        headers = answer.headers
        if not self.verifies or answer.status != 200 or headers.get("x-amz-checksum-type", FULL_OBJECT) != FULL_OBJECT:
            return None
        for name, algorithm in _CHECKSUM_HEADERS:
            text = headers.get(name)
            if text is not None:
                return algorithm.read(text)
        return None

    def info(self, key: str, answer: Answer, size_bytes: int) -> ObjectInfo:
        """Read an object's description from an answer's headers."""
        self.bucket_seen = True
        headers = answer.headers
        return ObjectInfo(
            key=key,
            size_bytes=size_bytes,
            version=headers.get("etag"),
            last_modified_s=http_seconds(headers.get("last-modified")),
        )

    def failure(self, operation: str, key: str, answer: Answer) -> Exception:
        """What an answer other than success means."""
        region = self._access.place().region
        return s3_failure(operation, self.address(key), self._uri, answer, region=region)

    def missing_bucket(self, operation: str) -> NotFoundError:
        """The error for a bucket that is not there."""
        return NotFoundError(
            f"{operation} {self._uri}: there is no bucket {self._uri}; check its name, region and endpoint (HTTP 404)",
            operation=operation,
            uri=self._uri,
            status=404,
        )

    # -- operations ---------------------------------------------------------------------------------------------------

    def head_object(self, key: str) -> Operation[ObjectInfo]:
        """Describe an object."""
        return HeadObject(self, key)

    def put_object(self, key: str, body: memoryview, *, condition: Condition | None) -> Operation[ObjectInfo]:
        """Write an object in one request."""
        return PutObject(self, key, body, self.upload_sum.text_of(body), condition=condition)

    def delete_object(self, key: str, *, condition: Condition | None) -> Operation[None]:
        """Remove an object; S3 answers 204 also where there is none."""
        if condition is not None:
            return ConditionalDelete(self, key, condition)

        def judge(answer: Answer) -> None:
            if answer.status in (200, 204):
                return
            failure = self.failure("delete_object", key, answer)
            if isinstance(failure, NotFoundError) and failure.code in (None, "NoSuchKey"):
                return
            raise failure

        return Call("delete_object", key, self.address(key), lambda: self.request("DELETE", key), judge)

    def copy_object(self, source: ObjectInfo, target_key: str) -> Operation[ObjectInfo]:
        """Copy an object of up to 5 GiB."""

        def judge(answer: Answer) -> ObjectInfo:
            tag = self._document("copy_object", target_key, answer, "CopyObjectResult", "ETag")
            return ObjectInfo(key=target_key, size_bytes=source.size_bytes, version=tag)

        def build() -> Request:
            return self.request("PUT", target_key, headers={**self._copied(source), **self._encryption}, body=b"")

        return Call("copy_object", target_key, self.address(target_key), build, judge)

    def list_page(self, prefix: str, *, start_after: str, token: str | None) -> Operation[ListPage]:
        """Ask for one page of a listing."""
        query = {"list-type": "2", "encoding-type": "url", "max-keys": str(self._config.list_page_size)}
        if prefix:
            query["prefix"] = prefix
        if token is not None:
            query["continuation-token"] = token
        elif start_after:
            query["start-after"] = start_after
        return self._listing("list_objects", prefix, query, list_page)

    def upload_page(self, prefix: str, marker: tuple[str, str] | None) -> Operation[UploadPage]:
        """Ask for one page of the open uploads."""
        query = {"uploads": "", "encoding-type": "url", "max-uploads": str(self._config.list_page_size)}
        if prefix:
            query["prefix"] = prefix
        if marker is not None:
            query["key-marker"] = marker[0]
            if marker[1]:
                query["upload-id-marker"] = marker[1]
        return self._listing("list_uploads", prefix, query, upload_page)

    def _listing(self, name: str, prefix: str, query: dict[str, str], read: Callable[[bytes], T]) -> Operation[T]:
        def judge(answer: Answer) -> T:
            if answer.status != 200:
                raise self.failure(name, prefix, answer)
            self.bucket_seen = True
            try:
                return read(answer.body)
            except MalformedAnswerError as error:
                raise self._malformed(name, prefix, error) from error

        return Call(name, prefix, self.address(prefix), lambda: self.request("GET", "", query=query), judge)

    def begin_upload(self, key: str) -> Operation[str]:
        """Open an upload whose parts carry a CRC, and its object the CRC that follows from theirs."""

        def judge(answer: Answer) -> str:
            return self._document("begin_upload", key, answer, "InitiateMultipartUploadResult", "UploadId")

        def build() -> Request:
            sums = {"x-amz-checksum-algorithm": self.upload_sum.name.upper(), "x-amz-checksum-type": FULL_OBJECT}
            headers = {**sums, **self._encryption}
            return self.request("POST", key, query={"uploads": ""}, headers=headers, body=b"")

        return Call("begin_upload", key, self.address(key), build, judge)

    def upload_part(self, key: str, upload_id: str, number: int, body: memoryview) -> Operation[UploadedPart]:
        """Send one part."""
        checksum = self.upload_sum.text_of(body)

        def judge(answer: Answer) -> UploadedPart:
            if answer.status != 200:
                raise self.failure("upload_part", key, answer)
            self.check_stored("upload_part", key, answer, checksum)
            return UploadedPart(
                number=number, size_bytes=len(body), tag=answer.headers.get("etag", ""), checksum=checksum
            )

        def build() -> Request:
            query = {"partNumber": str(number), "uploadId": upload_id}
            return self.request("PUT", key, query=query, headers={self.sum_header: checksum}, body=body)

        return Call("upload_part", key, self.address(key), build, judge)

    def copy_part(
        self, source: ObjectInfo, target_key: str, upload_id: str, number: int, start: int, stop: int
    ) -> Operation[UploadedPart]:
        """Have the server take one part from another object."""

        def judge(answer: Answer) -> UploadedPart:
            tag = self._document("copy_part", target_key, answer, "CopyPartResult", "ETag")
            try:
                checksum = text_of(answer.body, "CopyPartResult", self.sum_element)
            except MalformedAnswerError:
                checksum = None
            return UploadedPart(number=number, size_bytes=stop - start, tag=tag, checksum=checksum)

        def build() -> Request:
            query = {"partNumber": str(number), "uploadId": upload_id}
            headers = {**self._copied(source), "x-amz-copy-source-range": f"bytes={start}-{stop - 1}"}
            return self.request("PUT", target_key, query=query, headers=headers, body=b"")

        return Call("copy_part", target_key, self.address(target_key), build, judge)

    def complete_upload(
        self, key: str, upload_id: str, parts: list[UploadedPart], *, condition: Condition | None
    ) -> Operation[ObjectInfo]:
        """Publish an upload."""
        return CompleteUpload(self, key, upload_id, parts, condition=condition)

    def compose_objects(
        self,
        sources: Sequence[ObjectInfo],  # noqa: ARG002  # refused, whatever they are
        target_key: str,
        *,
        condition: Condition | None,  # noqa: ARG002  # likewise
    ) -> Operation[ObjectInfo]:
        """Refuse: S3 has no such request, as ``most_sources`` says."""
        raise UnsupportedError(
            f"compose_object {self.address(target_key)}: S3 joins no objects into one; write the object anew",
            operation="compose_object",
            uri=self.address(target_key),
        )

    def abort_upload(self, key: str, upload_id: str) -> Operation[None]:
        """Give an upload up; one that is gone already is no error."""

        def judge(answer: Answer) -> None:
            if answer.status in (200, 204):
                return
            failure = self.failure("abort_upload", key, answer)
            if not is_gone(failure):
                raise failure

        def build() -> Request:
            return self.request("DELETE", key, query={"uploadId": upload_id})

        return Call("abort_upload", key, self.address(key), build, judge)

    # -- parts of requests and answers --------------------------------------------------------------------------------

    def check_stored(self, operation: str, key: str, answer: Answer, checksum: str) -> None:
        """Raise ``Again`` where the server stored other bytes than those that were meant."""
        stored = answer.headers.get(self.sum_header, checksum)
        if stored != checksum:
            raise Again(
                TransportError(
                    f"{operation} {self.address(key)}: sent bytes with the {self.upload_sum.name} {checksum}, the "
                    f"server stored {stored}; they were damaged on the way",
                    operation=operation,
                    uri=self.address(key),
                    status=answer.status,
                )
            )

    def _document(self, operation: str, key: str, answer: Answer, root: str, element: str) -> str:
        """Read one element of an answer that may have the status 200 and yet hold an error."""
        if answer.status == 200:
            try:
                return text_of(answer.body, root, element)
            except MalformedAnswerError as error:
                failure = self.failure(operation, key, answer)
                if not isinstance(failure, Again) and getattr(failure, "code", None) is None:
                    raise self._malformed(operation, key, error) from error
                raise failure from error
        raise self.failure(operation, key, answer)

    def _malformed(self, operation: str, key: str, error: MalformedAnswerError) -> Again:
        return Again(
            TransportError(
                f"{operation} {self.address(key)}: {error}; is the endpoint an S3 service?",
                operation=operation,
                uri=self.address(key),
            )
        )
