"""What a provider's protocol must say, so that the same machinery reads and writes through any of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Protocol

from torchbucket.errors import NotFoundError
from torchbucket.store.conditions import Condition
from torchbucket.store.http.checksums import Checksum
from torchbucket.store.protocol import ObjectInfo, OpenUpload
from torchbucket.store.transport.operation import Answer, Operation, Request

__all__ = ["Dialect", "ListPage", "UploadPage", "UploadedPart", "is_gone"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ListPage:
    """One page of a listing in columns of equal length, and how to ask for the next: None at the end.

    ``modified_s`` is empty where the times of the last change were not asked for.
    """

    keys: list[str]
    sizes_bytes: list[int]
    versions: list[str | None]
    next_token: str | None
    modified_s: Sequence[float | None] = ()

    def infos(self) -> Iterator[ObjectInfo]:
        """Yield the objects one by one."""
        times = self.modified_s or repeat(None)
        for key, size_bytes, version, modified_s in zip(
            self.keys, self.sizes_bytes, self.versions, times, strict=False
        ):
            yield ObjectInfo(key=key, size_bytes=size_bytes, version=version, last_modified_s=modified_s)


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

    conditional_uploads: bool
    """Whether the completion of an upload can depend on what the key holds. Where it cannot, the upload goes to another
    key, and is composed from there on the condition."""

    most_sources: int
    """The most objects that one request composes; 0 where the provider has no such request."""

    verifies: bool
    """Whether what is read is to be compared with the object's checksum."""

    ranges_tell_checksum: bool
    """Whether the answer to a range has the checksum of the whole object, as that to the whole has."""

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

    def head_request(self, key: str, *, version: str | None = None, checksums: bool = False) -> Request:
        """Ask for an object's description, and for its checksum where that is not told anyway."""
        ...

    def checksum(self, answer: Answer) -> Checksum | None:
        """The checksum of the whole object that the answer to a read or HEAD tells; None where it tells none."""
        ...

    def delete_request(self, key: str, condition: Condition) -> Request:
        """Ask for an object's removal on a condition."""
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

    def put_object(self, key: str, body: memoryview, *, condition: Condition | None) -> Operation[ObjectInfo]:
        """Write an object in one request."""
        ...

    def delete_object(self, key: str, *, condition: Condition | None) -> Operation[None]:
        """Remove an object; there being none is no error, on a condition either."""
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
        self, key: str, upload_id: str, parts: list[UploadedPart], *, condition: Condition | None
    ) -> Operation[ObjectInfo]:
        """Publish an upload. It succeeds also where the server did so and its answer was lost.

        A condition is given only where ``conditional_uploads`` says so.
        """
        ...

    def compose_objects(
        self, sources: Sequence[ObjectInfo], target_key: str, *, condition: Condition | None
    ) -> Operation[ObjectInfo]:
        """Join from 1 to ``most_sources`` objects, each pinned to its version, into one."""
        ...

    def abort_upload(self, key: str, upload_id: str) -> Operation[None]:
        """Give an upload up; one that is gone already is no error."""
        ...

    def upload_page(self, prefix: str, marker: tuple[str, str] | None) -> Operation[UploadPage]:
        """Ask for one page of the open uploads."""
        ...


def is_gone(failure: Exception) -> bool:
    """Whether what was to be removed is not there, while its bucket is: that is no error of a removal."""
    return isinstance(failure, NotFoundError) and failure.code != "NoSuchBucket"
