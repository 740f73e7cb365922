"""A provider's protocol for one bucket: what it can do, and the operations that the rest of the store is made of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar, Final, TypeVar

from torchbucket.config import MIB
from torchbucket.store.conditions import Condition
from torchbucket.store.http.answers import Answers, is_gone
from torchbucket.store.http.checksums import Algorithm, Checksum
from torchbucket.store.http.confirmed_write import ConditionalDelete, PutObject
from torchbucket.store.http.requests import Access, Requests
from torchbucket.store.http.uploads import UploadedPart, UploadPage, upload_page
from torchbucket.store.http.xml import text_of
from torchbucket.store.protocol import ListedPage, ObjectInfo
from torchbucket.store.transport.body import Body
from torchbucket.store.transport.operation import Answer, Call, Operation, Request

__all__ = ["Dialect"]

T = TypeVar("T")


class Dialect(ABC):
    """Makes operations of a provider's requests and answers; a subclass adds what the providers do differently.

    The methods that return an operation build nothing yet: the transport has it build and sign each attempt. All may
    be called from any thread.
    """

    largest_copy_bytes: ClassVar[int]
    """The largest object that one copy request takes."""

    # Of an upload, the same at both providers. Source: S3 user guide, "Multipart upload limits"; Cloud Storage
    # documentation, "XML API multipart uploads".
    least_part_bytes: Final = 5 * MIB
    """The least part of an upload; the last one may be less."""

    largest_part_bytes: Final = 5 << 30
    """The largest part of an upload."""

    most_parts: Final = 10_000
    """The most parts of an upload."""

    conditional_uploads: ClassVar[bool]
    """Whether the completion of an upload can depend on what the key holds. Where it cannot, the upload goes to another
    key, and is composed from there on the condition."""

    copies_parts: ClassVar[bool]
    """Whether a part of an upload can be a range of another object."""

    most_sources: ClassVar[int]
    """The most objects that one request composes; 0 where the provider has no such request."""

    def __init__(self, access: Access, requests: Requests, answers: Answers) -> None:
        self._access = access
        self.requests = requests
        self.answers = answers

    @property
    def upload_sum(self) -> Algorithm:
        """The checksum that is sent with what is written."""
        return self.answers.upload_sum

    def prepare(self) -> None:
        """Find credentials and endpoint, on the caller's thread, since that may ask the network."""
        self._access.prepare()

    def renew(self) -> None:
        """Replace locks in a forked child."""
        self._access.renew()

    def address(self, key: str) -> str:
        """The object's address for messages."""
        return self.answers.address(key)

    @abstractmethod
    def head_object(self, key: str) -> Operation[ObjectInfo]:
        """Describe an object."""

    def put_object(
        self, key: str, body: Body, checksum: Checksum, *, condition: Condition | None
    ) -> Operation[ObjectInfo]:
        """Write an object in one request; ``checksum`` is the body's ``upload_sum``."""
        return PutObject(self.requests, self.answers, key, body, checksum, condition=condition)

    def delete_object(self, key: str, *, condition: Condition | None) -> Operation[None]:
        """Remove an object; there being none is no error, on a condition either."""
        if condition is not None:
            return ConditionalDelete(self.requests, self.answers, key, condition)
        return self._removal("delete_object", key, lambda: self.requests.delete_request(key, None))

    @abstractmethod
    def copy_object(self, source: ObjectInfo, target_key: str) -> Operation[ObjectInfo]:
        """Copy an object in one request."""

    @abstractmethod
    def read_page(self, body: bytes, *, start_after: str) -> tuple[ListedPage, str | None]:
        """Read one page of a listing, and the token that asks for what follows it, None at the end.

        Raises:
            MalformedAnswerError: the answer is no such page.
        """

    def begin_upload(self, key: str) -> Operation[str]:
        """Open an upload and return its id."""
        return self.asked(
            "begin_upload",
            key,
            lambda: self.requests.begin_request(key),
            lambda answer: text_of(answer.body, "InitiateMultipartUploadResult", "UploadId"),
        )

    def upload_part(
        self, key: str, upload_id: str, number: int, body: Body, checksum: Checksum
    ) -> Operation[UploadedPart]:
        """Send one part, with its ``upload_sum``; numbers begin at 1."""
        text = checksum.text

        def part(answer: Answer) -> UploadedPart:
            self.answers.check_stored("upload_part", key, answer, text)
            tag = answer.headers.get("etag", "")
            return UploadedPart(number=number, size_bytes=len(body), tag=tag, checksum=text)

        return self.asked(
            "upload_part", key, lambda: self.requests.part_request(key, upload_id, number, body, text), part
        )

    def copy_part(
        self, source: ObjectInfo, target_key: str, upload_id: str, number: int, start: int, stop: int
    ) -> Operation[UploadedPart]:
        """Have the server take one part from another object, where ``copies_parts`` says that it can."""
        raise NotImplementedError

    @abstractmethod
    def complete_upload(
        self, key: str, upload_id: str, parts: list[UploadedPart], *, condition: Condition | None
    ) -> Operation[ObjectInfo]:
        """Make an object of an upload. It succeeds also where the server did so and its answer was lost.

        A condition is given only where ``conditional_uploads`` says so.
        """

    def compose_objects(
        self, sources: Sequence[ObjectInfo], target_key: str, *, condition: Condition | None
    ) -> Operation[ObjectInfo]:
        """Join from 1 to ``most_sources`` objects, each pinned to its version, into one."""
        raise NotImplementedError

    def abort_upload(self, key: str, upload_id: str) -> Operation[None]:
        """Give an upload up; one that is gone already is no error."""
        return self._removal("abort_upload", key, lambda: self.requests.abort_request(key, upload_id))

    def upload_page(self, prefix: str, marker: tuple[str, str] | None) -> Operation[UploadPage]:
        """Ask for one page of the open uploads, and the marker that asks for the next."""
        return self.asked(
            "list_uploads",
            prefix,
            lambda: self.requests.uploads_request(prefix, marker),
            lambda answer: upload_page(answer.body),
        )

    def asked(self, name: str, key: str, build: Callable[[], Request], reader: Callable[[Answer], T]) -> Operation[T]:
        """An operation of one request, whose success ``reader`` reads; see ``Answers.read``."""
        return Call(name, key, self.address(key), build, lambda answer: self.answers.read(name, key, answer, reader))

    def _removal(self, name: str, key: str, build: Callable[[], Request]) -> Operation[None]:
        def judge(answer: Answer) -> None:
            if answer.status in (200, 204):
                return
            failure = self.answers.failure(name, key, answer)
            if not is_gone(failure):
                raise failure

        return Call(name, key, self.address(key), build, judge)
