"""The requests of Cloud Storage for one bucket: its XML API carries bytes, its JSON API everything else."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar
from urllib.parse import quote

from torchbucket.config import StoreConfig
from torchbucket.errors import ConfigError, NotFoundError, StoreError, TransportError, UnsupportedError
from torchbucket.store.checksums import Checksum
from torchbucket.store.conditions import Condition
from torchbucket.store.dialect import ListPage, UploadedPart, UploadPage
from torchbucket.store.gcs_access import GcsAccess
from torchbucket.store.gcs_errors import gcs_failure
from torchbucket.store.gcs_listing import list_page, page_query
from torchbucket.store.gcs_publish import CompleteUpload, ComposeObjects, CopyObject, PutObject
from torchbucket.store.gcs_resources import (
    CRC32C,
    RESOURCE_FIELDS,
    StoredObject,
    read_json,
    stored_crc32c,
    stored_object,
)
from torchbucket.store.http_dates import http_seconds
from torchbucket.store.operation import Again, Answer, Call, Operation, Request
from torchbucket.store.protocol import ObjectInfo
from torchbucket.store.publication import ConditionalDelete
from torchbucket.store.s3_xml import MalformedAnswerError, completion, text_of, upload_page

__all__ = ["GcsDialect"]

T = TypeVar("T")

_GIB: Final = 1 << 30

# Without it an object with Content-Encoding: gzip would arrive decompressed, whole whatever range was asked for, and of
# another size than listed. Source: Cloud Storage documentation, "Transcoding of gzip-compressed files".
_AS_STORED: Final = "accept-encoding: gzip"

_JSON: Final = "content-type: application/json; charset=UTF-8"


class GcsDialect:
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
        self._bucket = bucket
        self._uri = f"gs://{bucket}"
        self._config = config
        self._access = GcsAccess(bucket, config)
        self._key_name = config.kms_key_name
        self.verifies = config.verify_checksums

    def prepare(self) -> None:
        """Find endpoint and token, on the caller's thread."""
        self._access.prepare()

    def renew(self) -> None:
        """Replace locks in a forked child."""
        self._access.renew()

    def address(self, key: str) -> str:
        """The object's address."""
        return f"{self._uri}/{key}"

    # -- reading ------------------------------------------------------------------------------------------------------

    def get_request(self, key: str, *, start: int | None, stop: int | None, version: str | None) -> Request:
        """Ask for a range of an object, or all of it, of one generation if one is given."""
        lines = [*self._access.lines(), _AS_STORED]
        if start is not None:
            lines.append(f"range: bytes={start}-" if stop is None else f"range: bytes={start}-{stop - 1}")
        if version is not None:
            lines.append(f"x-goog-if-generation-match: {_generation(version)}")
        return Request(method="GET", url=self._xml_url(key), headers=lines)

    def head_request(self, key: str, *, version: str | None = None, checksums: bool = False) -> Request:  # noqa: ARG002  # always told
        """Ask for an object's description in headers."""
        lines = [*self._access.lines(), _AS_STORED]
        if version is not None:
            lines.append(f"x-goog-if-generation-match: {_generation(version)}")
        return Request(method="HEAD", url=self._xml_url(key), headers=lines)

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

    def metadata_request(self, key: str) -> Request:
        """Ask for an object's resource."""
        return self._json_request("GET", self._object_path(key), {"fields": RESOURCE_FIELDS})

    def list_page(self, prefix: str, *, start_after: str, token: str | None) -> Operation[ListPage]:
        """Ask for one page of a listing."""
        query = page_query(prefix, start_after=start_after, token=token, page_size=self._config.list_page_size)

        def build() -> Request:
            return self._json_request("GET", "", query)

        return self._listing("list_objects", prefix, build, lambda body: list_page(body, start_after=start_after))

    # -- writing ------------------------------------------------------------------------------------------------------

    def put_object(self, key: str, body: memoryview, *, condition: Condition | None) -> Operation[ObjectInfo]:
        """Write an object in one request."""
        return PutObject(self, key, body, CRC32C.text_of(body), condition=condition)

    def put_request(self, key: str, body: memoryview, checksum: str, *, condition: Condition | None) -> Request:
        """Send an object's bytes."""
        lines = [f"x-goog-hash: crc32c={checksum}", *self._encryption()]
        if condition is not None:
            lines.append(f"x-goog-if-generation-match: {_matched(condition)}")
        return self._xml_request("PUT", key, lines=lines, body=body, once=condition is not None and not body)

    def delete_object(self, key: str, *, condition: Condition | None) -> Operation[None]:
        """Remove an object; here there being none is the server's error and not ours."""
        if condition is not None:
            return ConditionalDelete(self, key, condition)

        def judge(answer: Answer) -> None:
            if answer.status in (200, 204):
                return
            failure = self.failure("delete_object", key, answer)
            if not _is_gone(failure):
                raise failure

        def build() -> Request:
            return self._json_request("DELETE", self._object_path(key), {})

        return Call("delete_object", key, self.address(key), build, judge)

    def delete_request(self, key: str, condition: Condition) -> Request:
        """Remove an object of one generation."""
        return self._json_request("DELETE", self._object_path(key), {"ifGenerationMatch": _matched(condition)})

    def copy_object(self, source: ObjectInfo, target_key: str) -> Operation[ObjectInfo]:
        """Copy an object of any size."""
        return CopyObject(self, source, target_key)

    def rewrite_request(self, source: ObjectInfo, target_key: str, token: str | None) -> Request:
        """Copy an object, or go on with a copy that took more than one request."""
        query = {"fields": f"done,rewriteToken,resource({RESOURCE_FIELDS})"}
        if source.version is not None:
            query["ifSourceGenerationMatch"] = _generation(source.version)
        if token is not None:
            query["rewriteToken"] = token
        if self._key_name is not None:
            query["destinationKmsKeyName"] = self._key_name
        path = f"{self._object_path(source.key)}/rewriteTo/b/{self._bucket}/o{self._object_path(target_key)}"
        return self._json_request("POST", path, query, body=b"")

    def compose_objects(
        self, sources: Sequence[ObjectInfo], target_key: str, *, condition: Condition | None
    ) -> Operation[ObjectInfo]:
        """Join up to 32 objects into one."""
        return ComposeObjects(self, sources, target_key, condition=condition)

    def compose_request(
        self, sources: Sequence[ObjectInfo], target_key: str, *, condition: Condition | None
    ) -> Request:
        """Name the objects that make the target; each must have its generation still."""
        entries: list[dict[str, object]] = []
        for source in sources:
            entry: dict[str, object] = {"name": source.key}
            if source.version is not None:
                entry["objectPreconditions"] = {"ifGenerationMatch": _generation(source.version)}
            entries.append(entry)
        query = {"fields": RESOURCE_FIELDS}
        if condition is not None:
            query["ifGenerationMatch"] = _matched(condition)
        if self._key_name is not None:
            query["kmsKeyName"] = self._key_name
        document = {"sourceObjects": entries, "destination": {"contentType": "application/octet-stream"}}
        path = f"{self._object_path(target_key)}/compose"
        return self._json_request("POST", path, query, body=json.dumps(document).encode())

    def begin_upload(self, key: str) -> Operation[str]:
        """Open an upload."""

        def judge(answer: Answer) -> str:
            if answer.status != 200:
                raise self.failure("begin_upload", key, answer)
            return self.check_document("begin_upload", key, answer, "InitiateMultipartUploadResult", "UploadId")

        def build() -> Request:
            return self._xml_request("POST", key, query="uploads", lines=self._encryption(), body=b"")

        return Call("begin_upload", key, self.address(key), build, judge)

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
            query = f"partNumber={number}&uploadId={_quoted(upload_id)}"
            return self._xml_request("PUT", key, query=query, lines=[f"x-goog-hash: crc32c={checksum}"], body=body)

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

    def complete_request(self, key: str, upload_id: str, parts: list[UploadedPart]) -> Request:
        """Name the parts that make the object."""
        body = completion(UploadedPart(number=part.number, size_bytes=part.size_bytes, tag=part.tag) for part in parts)
        lines = ["content-type: application/xml"]
        return self._xml_request("POST", key, query=f"uploadId={_quoted(upload_id)}", lines=lines, body=body)

    def abort_upload(self, key: str, upload_id: str) -> Operation[None]:
        """Give an upload up; one that is gone already is no error."""

        def judge(answer: Answer) -> None:
            if answer.status in (200, 204):
                return
            failure = self.failure("abort_upload", key, answer)
            if not _is_gone(failure):
                raise failure

        def build() -> Request:
            return self._xml_request("DELETE", key, query=f"uploadId={_quoted(upload_id)}")

        return Call("abort_upload", key, self.address(key), build, judge)

    def upload_page(self, prefix: str, marker: tuple[str, str] | None) -> Operation[UploadPage]:
        """Ask for one page of the open uploads."""
        query = f"uploads&encoding-type=url&max-uploads={self._config.list_page_size}"
        if prefix:
            query += f"&prefix={_quoted(prefix)}"
        if marker is not None:
            query += f"&key-marker={_quoted(marker[0])}"
            if marker[1]:
                query += f"&upload-id-marker={_quoted(marker[1])}"

        def build() -> Request:
            return Request(
                method="GET",
                url=f"{self._access.origin()}/{self._bucket}?{query}",
                headers=list(self._access.lines()),
            )

        return self._listing("list_uploads", prefix, build, upload_page)

    # -- parts of requests and answers --------------------------------------------------------------------------------

    def _xml_url(self, key: str) -> str:
        return f"{self._access.origin()}/{self._bucket}/{quote(self._named(key), safe='/-_.~')}"

    def _xml_request(
        self,
        method: str,
        key: str,
        *,
        query: str = "",
        lines: Sequence[str] = (),
        body: bytes | memoryview | None = None,
        once: bool = False,
    ) -> Request:
        url = f"{self._xml_url(key)}?{query}" if query else self._xml_url(key)
        headers = [*self._access.lines(), *lines]
        if body is not None:
            headers.append("Expect:")  # Waiting for leave to send costs a round trip.
        return Request(method=method, url=url, headers=headers, body=body, once=once)

    def _json_request(self, method: str, path: str, query: dict[str, str], *, body: bytes | None = None) -> Request:
        url = f"{self._access.origin()}/storage/v1/b/{self._bucket}/o{path}"
        if query:
            url += "?" + "&".join(f"{name}={_quoted(value)}" for name, value in query.items())
        headers = list(self._access.lines())
        if body is not None:
            headers += (_JSON, "Expect:")
        return Request(method=method, url=url, headers=headers, body=body)

    def _object_path(self, key: str) -> str:
        return f"/{_quoted(self._named(key))}"

    def _named(self, key: str) -> str:
        """Return the key; raise ``UnsupportedError`` where Cloud Storage has no such names.

        *Source*: Cloud Storage documentation, "Object names".
        """
        reason = ""
        if "\n" in key or "\r" in key:
            reason = "a line feed or carriage return"
        elif key in (".", ".."):
            reason = "nothing but dots"
        elif key.startswith(".well-known/acme-challenge/"):
            reason = "the reserved beginning .well-known/acme-challenge/"
        if reason:
            raise UnsupportedError(
                f"{self.address(key)!r}: its key has {reason}, which Cloud Storage does not allow; rename it",
                operation="key",
                uri=self.address(key),
            )
        return key

    def _encryption(self) -> tuple[str, ...]:
        return () if self._key_name is None else (f"x-goog-encryption-kms-key-name: {self._key_name}",)

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


def _quoted(text: str) -> str:
    return quote(text, safe="-_.~")


def _generation(version: str) -> str:
    """A version that can be a generation; others would be refused with an answer that names no reason."""
    if not (version.isascii() and version.isdigit()):
        raise ConfigError(f"a version on Cloud Storage is a generation, a text of digits; got {version!r}")
    return version


def _matched(condition: Condition) -> str:
    """The generation that must be there; 0 stands for none. *Source*: Cloud Storage, "Request preconditions"."""
    return "0" if condition.version is None else _generation(condition.version)


def _is_gone(failure: Exception) -> bool:
    return isinstance(failure, NotFoundError) and failure.code != "NoSuchBucket"
