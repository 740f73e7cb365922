"""What a provider's protocol must say, so that the same machinery reads and writes through any of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torchbucket.store.operation import Answer, Operation, Request
from torchbucket.store.protocol import ObjectInfo, OpenUpload

__all__ = ["Dialect", "ListPage", "UploadPage", "UploadedPart"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ListPage:
    """One page of a listing, and how to ask for the next: None at the end."""

    objects: list[ObjectInfo]
    next_token: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class UploadPage:
    """One page of open uploads, and how to ask for the next: None at the end."""

    uploads: list[OpenUpload]
    next_marker: tuple[str, str] | None


@dataclass(frozen=True, kw_only=True, slots=True)
class UploadedPart:
    """What the server said of one part, to be repeated when the upload is completed."""

    number: int
    size_bytes: int
    tag: str
    checksum: str | None = None


class Dialect(Protocol):
    """Builds and reads one provider's requests for one bucket.

    The methods that return an operation build nothing yet: the transport has it build and sign each attempt. All may
    be called from any thread.
    """

    largest_copy_bytes: int
    """The largest object that one copy request takes."""

    largest_part_bytes: int
    """The largest part of an upload."""

    most_parts: int
    """The most parts of an upload."""

    def prepare(self) -> None:
        """Find credentials and endpoint, on the caller's thread, since that may ask the network."""
        ...

    def renew(self) -> None:
        """Replace locks in a forked child."""
        ...

    def address(self, key: str) -> str:
        """The object's address for messages."""
        ...

    def get_request(self, key: str, *, start: int | None, stop: int | None, version: str | None) -> Request:
        """Ask for the bytes ``[start, stop)``, or with ``start`` None for all; of that version only, if any."""
        ...

    def head_request(self, key: str, *, version: str | None = None) -> Request:
        """Ask for an object's description."""
        ...

    def info(self, key: str, answer: Answer, size_bytes: int) -> ObjectInfo:
        """Read an object's description from the headers of an answer."""
        ...

    def failure(self, operation: str, key: str, answer: Answer) -> Exception:
        """What an answer other than success means: ``Again`` around the error, or the error to give up with."""
        ...

    def head_object(self, key: str) -> Operation[ObjectInfo]:
        """Describe an object."""
        ...

    def put_object(self, key: str, body: memoryview, *, if_absent: bool) -> Operation[ObjectInfo]:
        """Write an object in one request."""
        ...

    def delete_object(self, key: str) -> Operation[None]:
        """Remove an object."""
        ...

    def copy_object(self, source: ObjectInfo, target_key: str) -> Operation[ObjectInfo]:
        """Copy an object in one request."""
        ...

    def list_page(self, prefix: str, *, start_after: str, token: str | None) -> Operation[ListPage]:
        """Ask for one page of a listing."""
        ...

    def begin_upload(self, key: str) -> Operation[str]:
        """Open an upload and return its id."""
        ...

    def upload_part(self, key: str, upload_id: str, number: int, body: memoryview) -> Operation[UploadedPart]:
        """Send one part; numbers begin at 1."""
        ...

    def copy_part(
        self, source: ObjectInfo, target_key: str, upload_id: str, number: int, start: int, stop: int
    ) -> Operation[UploadedPart]:
        """Have the server take one part from another object."""
        ...

    def complete_upload(
        self, key: str, upload_id: str, parts: list[UploadedPart], *, if_absent: bool
    ) -> Operation[ObjectInfo]:
        """Publish an upload. It succeeds also where the server did so and its answer was lost."""
        ...

    def abort_upload(self, key: str, upload_id: str) -> Operation[None]:
        """Give an upload up; one that is gone already is no error."""
        ...

    def upload_page(self, prefix: str, marker: tuple[str, str] | None) -> Operation[UploadPage]:
        """Ask for one page of the open uploads."""
        ...
