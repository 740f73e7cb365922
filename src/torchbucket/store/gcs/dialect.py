"""The operations of Cloud Storage for one bucket: what the answers to its requests mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from torchbucket.config import StoreConfig
from torchbucket.errors import StoreError, TransportError, UnsupportedError
from torchbucket.store.conditions import Condition
from torchbucket.store.gcs.errors import gcs_failure
from torchbucket.store.gcs.listing import list_page
from torchbucket.store.gcs.publish import CompleteUpload, ComposeObjects, CopyObject, PutObject
from torchbucket.store.gcs.requests import GcsRequests
from torchbucket.store.gcs.resources import (
    CRC32C,
    StoredObject,
    read_json,
    stored_crc32c,
    stored_object,
)
from torchbucket.store.http.checksums import Checksum
from torchbucket.store.http.dates import http_seconds
from torchbucket.store.http.dialect import ListPage, UploadedPart, UploadPage, is_gone
from torchbucket.store.http.publication import ConditionalDelete
from torchbucket.store.http.xml import MalformedAnswerError, text_of, upload_page
from torchbucket.store.protocol import ObjectInfo
from torchbucket.store.transport.operation import Again, Answer, Call, Operation, Request

__all__ = ["GcsDialect"]

T = TypeVar("T")

_GIB: Final = 1 << 30


class GcsDialect(GcsRequests):
    """Speaks Cloud Storage to one bucket; versions are generations.

    What is written carries its CRC-32C, which the server checks before it publishes and repeats in its answer.
    *Source* of the limits: Cloud Storage documentation, "Quotas and limits" and "XML API multipart uploads", which also
    says that the requests of an upload in parts take no preconditions.
    """

    largest_copy_bytes = 5 << 40
    largest_part_bytes = 5 * _GIB
    most_parts = 10_000
    ranges_tell_checksum = True
    conditional_uploads = False
    most_sources = 32

    def __init__(self, bucket: str, config: StoreConfig) -> None:
        super().__init__(bucket, config)
        self.verifies = config.verify_checksums

    # -- reading ------------------------------------------------------------------------------------------------------

    def checksum(self, answer: Answer) -> Checksum | None:
        """The CRC-32C of the whole object, which the answer to a range has, too."""
        if not self.verifies:
            return None
        return CRC32C.read(stored_crc32c(answer) or "")

    def info(self, key: str, answer: Answer, size_bytes: int) -> ObjectInfo:
        """Read an object's description from an answer's headers.

        Raises:
            Again: the bytes are not those that are stored, but were compressed or decompressed on the way.
        """
        headers = answer.headers
        stored = headers.get("x-goog-stored-content-length")
        if stored is not None and stored != str(size_bytes):
            raise Again(
                TransportError(
                    f"read {self.address(key)}: the object has {stored} bytes and the answer {size_bytes}: it was "
                    "compressed or decompressed on the way; is there a proxy that does so?",
                    operation="get_object",
                    uri=self.address(key),
                    status=answer.status,
                )
            )
        return ObjectInfo(
            key=key,
            size_bytes=size_bytes,
            version=headers.get("x-goog-generation"),
            last_modified_s=http_seconds(headers.get("last-modified")),
        )

    def failure(self, operation: str, key: str, answer: Answer) -> Exception:
        """What an answer other than success means."""
        renewable = answer.status == 401 and self._access.refused()
        return gcs_failure(operation, self.address(key), self._uri, answer, renewable=renewable)

    def head_object(self, key: str) -> Operation[ObjectInfo]:
        """Describe an object."""

        def judge(answer: Answer) -> ObjectInfo:
            if answer.status != 200:
                raise self.failure("head_object", key, answer)
            return self.resource("head_object", key, answer).info

        return Call("head_object", key, self.address(key), lambda: self.metadata_request(key), judge)

    def list_page(self, prefix: str, *, start_after: str, token: str | None) -> Operation[ListPage]:
        """Ask for one page of a listing."""

        def build() -> Request:
            return self.page_request(prefix, start_after=start_after, token=token)

        return self._listing("list_objects", prefix, build, lambda body: list_page(body, start_after=start_after))

    # -- writing ------------------------------------------------------------------------------------------------------

    def put_object(self, key: str, body: memoryview, *, condition: Condition | None) -> Operation[ObjectInfo]:
        """Write an object in one request."""
        return PutObject(self, key, body, CRC32C.text_of(body), condition=condition)

    def delete_object(self, key: str, *, condition: Condition | None) -> Operation[None]:
        """Remove an object; here there being none is the server's error and not ours."""
        if condition is not None:
            return ConditionalDelete(self, key, condition)

        def judge(answer: Answer) -> None:
            if answer.status in (200, 204):
                return
            failure = self.failure("delete_object", key, answer)
            if not is_gone(failure):
                raise failure

        return Call("delete_object", key, self.address(key), lambda: self.delete_request(key, None), judge)

    def copy_object(self, source: ObjectInfo, target_key: str) -> Operation[ObjectInfo]:
        """Copy an object of any size."""
        return CopyObject(self, source, target_key)

    def compose_objects(
        self, sources: Sequence[ObjectInfo], target_key: str, *, condition: Condition | None
    ) -> Operation[ObjectInfo]:
        """Join up to 32 objects into one."""
        return ComposeObjects(self, sources, target_key, condition=condition)

    def begin_upload(self, key: str) -> Operation[str]:
        """Open an upload."""

        def judge(answer: Answer) -> str:
            if answer.status != 200:
                raise self.failure("begin_upload", key, answer)
            return self.check_document("begin_upload", key, answer, "InitiateMultipartUploadResult", "UploadId")

        return Call("begin_upload", key, self.address(key), lambda: self.begin_request(key), judge)

    def upload_part(self, key: str, upload_id: str, number: int, body: memoryview) -> Operation[UploadedPart]:
        """Send one part."""
        checksum = CRC32C.text_of(body)

        def judge(answer: Answer) -> UploadedPart:
            if answer.status != 200:
                raise self.failure("upload_part", key, answer)
            self.check_stored("upload_part", key, answer, checksum)
            tag = answer.headers.get("etag", "")
            return UploadedPart(number=number, size_bytes=len(body), tag=tag, checksum=checksum)

        def build() -> Request:
            return self.part_request(key, upload_id, number, body, checksum)

        return Call("upload_part", key, self.address(key), build, judge)

    def copy_part(
        self,
        source: ObjectInfo,
        target_key: str,
        upload_id: str,
        number: int,
        start: int,
        stop: int,
    ) -> Operation[UploadedPart]:
        """Refuse: one request copies an object of any size, and no part is made by copying."""
        raise UnsupportedError(
            f"copy_part {self.address(target_key)}: Cloud Storage makes no part {number} of upload {upload_id} from "
            f"the bytes {start} to {stop} of {source.key!r}; copy the object whole",
            operation="copy_part",
            uri=self.address(target_key),
        )

    def complete_upload(
        self, key: str, upload_id: str, parts: list[UploadedPart], *, condition: Condition | None
    ) -> Operation[ObjectInfo]:
        """Publish an upload; on a condition it would be ignored, so that is refused."""
        if condition is not None:
            raise UnsupportedError(
                f"complete_upload {self.address(key)}: Cloud Storage takes no condition here; compose from another key",
                operation="complete_upload",
                uri=self.address(key),
            )
        return CompleteUpload(self, key, upload_id, parts)

    def abort_upload(self, key: str, upload_id: str) -> Operation[None]:
        """Give an upload up; one that is gone already is no error."""

        def judge(answer: Answer) -> None:
            if answer.status in (200, 204):
                return
            failure = self.failure("abort_upload", key, answer)
            if not is_gone(failure):
                raise failure

        return Call("abort_upload", key, self.address(key), lambda: self.abort_request(key, upload_id), judge)

    def upload_page(self, prefix: str, marker: tuple[str, str] | None) -> Operation[UploadPage]:
        """Ask for one page of the open uploads."""
        return self._listing("list_uploads", prefix, lambda: self.uploads_request(prefix, marker), upload_page)

    # -- parts of requests and answers --------------------------------------------------------------------------------

    def _listing(
        self, name: str, prefix: str, build: Callable[[], Request], read: Callable[[bytes], T]
    ) -> Operation[T]:
        def judge(answer: Answer) -> T:
            if answer.status != 200:
                raise self.failure(name, prefix, answer)
            try:
                return read(answer.body)
            except MalformedAnswerError as error:
                raise self._malformed(name, prefix, error) from error

        return Call(name, prefix, self.address(prefix), build, judge)

    def json_of(self, operation: str, key: str, answer: Answer) -> dict[str, Any]:
        """The document of an answer of the JSON API; raise ``Again`` where it is none."""
        try:
            return read_json(answer.body)
        except MalformedAnswerError as error:
            raise self._malformed(operation, key, error) from error

    def described(self, operation: str, key: str, resource: object) -> StoredObject:
        """Read an object's resource; raise ``Again`` where it is none."""
        try:
            return stored_object(resource, key)
        except MalformedAnswerError as error:
            raise self._malformed(operation, key, error) from error

    def resource(self, operation: str, key: str, answer: Answer) -> StoredObject:
        """Read an answer that is an object's resource; raise ``Again`` where it is none."""
        return self.described(operation, key, self.json_of(operation, key, answer))

    def check_document(self, operation: str, key: str, answer: Answer, root: str, element: str = "ETag") -> str:
        """One element of an answer of the XML API; raise what the answer means where it is another document."""
        try:
            return text_of(answer.body, root, element)
        except MalformedAnswerError as error:
            failure = self.failure(operation, key, answer)
            if isinstance(failure, StoreError) and failure.code is None:
                raise self._malformed(operation, key, error) from error
            raise failure from error

    def check_stored(self, operation: str, key: str, answer: Answer, checksum: str) -> None:
        """Raise ``Again`` where the server stored other bytes than those that were meant."""
        stored = stored_crc32c(answer)
        if stored not in (None, checksum):
            raise Again(
                TransportError(
                    f"{operation} {self.address(key)}: sent bytes with the CRC-32C {checksum}, the server stored "
                    f"{stored}; they were damaged on the way",
                    operation=operation,
                    uri=self.address(key),
                    status=answer.status,
                )
            )

    def _malformed(self, operation: str, key: str, error: MalformedAnswerError) -> Again:
        return Again(
            TransportError(
                f"{operation} {self.address(key)}: {error}; is the endpoint a Cloud Storage service?",
                operation=operation,
                uri=self.address(key),
            )
        )
