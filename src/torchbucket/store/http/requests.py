"""The requests of S3 and of Cloud Storage's XML API, which spell alike what carries bytes and uploads in parts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final, Protocol, TypeAlias

from torchbucket.config import StoreConfig
from torchbucket.store.conditions import Condition
from torchbucket.store.http.uploads import UploadedPart, completion
from torchbucket.store.transport.body import Body
from torchbucket.store.transport.operation import Request

__all__ = ["NO_FIELDS", "Access", "Content", "Fields", "Requests"]

Content: TypeAlias = bytes | Body | None
"""A request's body: a document, an object's bytes, or none."""

Fields: TypeAlias = Mapping[str, str]
"""Headers, or the parameters of a query, by their names."""

NO_FIELDS: Final[Fields] = MappingProxyType({})


class Access(Protocol):
    """Finds endpoint and credentials when they are first needed, and keeps the credentials fresh."""

    def prepare(self) -> None:
        """See that they are there, on the caller's thread, since that may ask the network."""
        ...

    def renew(self) -> None:
        """Replace locks in a forked child."""
        ...


class Requests(ABC):
    """Builds one provider's requests for one bucket, anew for each attempt, with credentials that are valid then.

    All may be called from any thread and never wait, once the access was prepared. A subclass says what the provider's
    headers are called, and adds the requests that it has alone.

    Args:
        config: checksums and page size.
        encryption: the headers that say how what is written is encrypted.
    """

    sum_element = ""
    """What a part's checksum is called in documents; empty where they have none."""

    _upload_headers = NO_FIELDS

    def __init__(self, config: StoreConfig, encryption: Fields) -> None:
        self._verifies = config.verify_checksums
        self._page_size = str(config.list_page_size)
        self._encryption = encryption

    @abstractmethod
    def request(
        self, method: str, key: str, *, query: Fields = NO_FIELDS, headers: Fields = NO_FIELDS, body: Content = None
    ) -> Request:
        """Build one request; a key of "" means the bucket."""

    @abstractmethod
    def read_headers(self, *, checksums: bool) -> dict[str, str]:
        """The headers of every GET and HEAD of an object; with ``checksums`` its checksum is to be told."""

    @abstractmethod
    def version_headers(self, version: str | None) -> dict[str, str]:
        """The headers that demand that the object has a version, or with None that there is none."""

    @abstractmethod
    def sum_headers(self, checksum: str) -> dict[str, str]:
        """The headers that tell the checksum of a body."""

    def completion_headers(self, parts: list[UploadedPart]) -> Fields:  # noqa: ARG002  # for overrides
        """The headers that say what the object of an upload is to be."""
        return NO_FIELDS

    @abstractmethod
    def delete_request(self, key: str, condition: Condition | None) -> Request:
        """Ask for an object's removal."""

    @abstractmethod
    def page_request(self, prefix: str, *, start_after: str, token: str | None) -> Request:
        """Ask for one page of a listing."""

    def get_request(self, key: str, *, start: int | None, stop: int | None, version: str | None) -> Request:
        """Ask for the bytes ``[start, stop)``, or with ``start`` None for all; of that version only, if any."""
        headers = self.read_headers(checksums=start is None and self._verifies)
        if start is not None:
            headers["range"] = f"bytes={start}-" if stop is None else f"bytes={start}-{stop - 1}"
        if version is not None:
            headers.update(self.version_headers(version))
        return self.request("GET", key, headers=headers)

    def head_request(self, key: str, *, version: str | None = None, checksums: bool = False) -> Request:
        """Ask for an object's description in headers, and for its checksum where that is not told anyway."""
        headers = self.read_headers(checksums=checksums)
        if version is not None:
            headers.update(self.version_headers(version))
        return self.request("HEAD", key, headers=headers)

    def put_request(self, key: str, body: Body, checksum: str, *, condition: Condition | None) -> Request:
        """Send an object's bytes."""
        headers = {**self.sum_headers(checksum), **self._encryption, **self._condition_headers(condition)}
        request = self.request("PUT", key, headers=headers, body=body)
        return request if condition is None or body else replace(request, once=True)

    def begin_request(self, key: str) -> Request:
        """Open an upload."""
        headers = {**self._upload_headers, **self._encryption}
        return self.request("POST", key, query={"uploads": ""}, headers=headers, body=b"")

    def part_request(self, key: str, upload_id: str, number: int, body: Body, checksum: str) -> Request:
        """Send one part."""
        query = {"partNumber": str(number), "uploadId": upload_id}
        return self.request("PUT", key, query=query, headers=self.sum_headers(checksum), body=body)

    def complete_request(
        self, key: str, upload_id: str, parts: list[UploadedPart], *, condition: Condition | None
    ) -> Request:
        """Name the parts that make the object."""
        headers = {
            "content-type": "application/xml",
            **self.completion_headers(parts),
            **self._condition_headers(condition),
        }
        body = completion(parts, checksum_element=self.sum_element)
        return self.request("POST", key, query={"uploadId": upload_id}, headers=headers, body=body)

    def abort_request(self, key: str, upload_id: str) -> Request:
        """Give an upload up."""
        return self.request("DELETE", key, query={"uploadId": upload_id})

    def uploads_request(self, prefix: str, marker: tuple[str, str] | None) -> Request:
        """Ask for one page of the open uploads."""
        after, upload_id = marker or ("", "")
        query = {"prefix": prefix, "key-marker": after, "upload-id-marker": upload_id}
        given = {name: value for name, value in query.items() if value}
        return self.request(
            "GET", "", query={"uploads": "", "encoding-type": "url", "max-uploads": self._page_size, **given}
        )

    def _condition_headers(self, condition: Condition | None) -> dict[str, str]:
        return {} if condition is None else self.version_headers(condition.version)
