"""How one provider's answers are read: what they describe, what they promise, and what went wrong."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, TypeVar

from torchbucket.errors import NotFoundError, StoreError, TransportError
from torchbucket.store.http.checksums import Algorithm, Checksum
from torchbucket.store.http.xml import MalformedAnswerError
from torchbucket.store.protocol import ObjectInfo
from torchbucket.store.transport.operation import Again, Answer

__all__ = ["Answers", "is_gone"]

T = TypeVar("T")


class Answers(ABC):
    """Reads the answers of one provider for one bucket. Its methods may be called from any thread and never wait.

    Args:
        uri: the bucket's address.
        upload_sum: the checksum that what is written carries.
        verifies: whether what is read is to be compared with the object's checksum.
    """

    service: ClassVar[str]
    """What kind of service the endpoint should be, for messages."""

    ranges_tell_checksum: ClassVar[bool]
    """Whether the answer to a range has the checksum of the whole object, as that to the whole has."""

    def __init__(self, uri: str, upload_sum: Algorithm, *, verifies: bool) -> None:
        self.uri = uri
        self.upload_sum = upload_sum
        self.verifies = verifies

    def address(self, key: str) -> str:
        """The object's address."""
        return f"{self.uri}/{key}"

    @abstractmethod
    def failure(self, operation: str, key: str, answer: Answer) -> Exception:
        """What an answer other than success means: ``Again`` around the error, or the error to give up with."""

    @abstractmethod
    def info(self, key: str, answer: Answer, size_bytes: int) -> ObjectInfo:
        """Read an object's description from an answer's headers."""

    @abstractmethod
    def checksum(self, answer: Answer) -> Checksum | None:
        """The checksum of the whole object that the answer to a read or HEAD tells; None where it tells none, or where
        nothing is to be compared."""

    @abstractmethod
    def stored_sum(self, answer: Answer) -> Checksum | None:
        """The ``upload_sum`` of what the server stored, as its answer to a write or HEAD tells; None where it does not.

        After a part it is the part's, otherwise the whole object's.
        """

    def read(self, operation: str, key: str, answer: Answer, reader: Callable[[Answer], T]) -> T:
        """Return what ``reader`` finds in a success.

        An answer of status 200 may hold an error, or what is no answer of the provider.

        Raises:
            Exception: what the answer means where it is no success; see ``failure``.
        """
        if answer.status != 200:
            raise self.failure(operation, key, answer)
        try:
            return reader(answer)
        except MalformedAnswerError as error:
            failure = self.failure(operation, key, answer)
            if isinstance(failure, Again) or (isinstance(failure, StoreError) and failure.code is not None):
                raise failure from error
            raise self.again(operation, key, f"{error}; is the endpoint {self.service}?", answer) from error

    def described(self, operation: str, key: str, answer: Answer) -> ObjectInfo:
        """Read the answer to a HEAD: an object's description, whose size is in a header."""
        length = answer.headers.get("content-length", "")
        if answer.status == 200 and length.isascii() and length.isdigit():
            return self.info(key, answer, int(length))
        return self.read(operation, key, answer, _no_length)

    def check_stored(self, operation: str, key: str, answer: Answer, checksum: str) -> None:
        """Raise ``Again`` where the server stored other bytes than those that were meant."""
        stored = self.stored_sum(answer)
        if stored is not None and stored.text != checksum:
            why = (
                f"sent bytes with the {self.upload_sum.name} {checksum}, the server stored {stored.text}; they were "
                "damaged on the way"
            )
            raise self.again(operation, key, why, answer)

    def again(self, operation: str, key: str, why: str, answer: Answer) -> Again:
        """What to raise for an answer that should be another, which the next attempt may get."""
        uri = self.address(key)
        return Again(TransportError(f"{operation} {uri}: {why}", operation=operation, uri=uri, status=answer.status))


def _no_length(_answer: Answer) -> ObjectInfo:
    raise MalformedAnswerError("the answer does not tell the object's size in Content-Length")


def is_gone(failure: Exception) -> bool:
    """Whether what was to be removed is not there, while its bucket is: that is no error of a removal."""
    return isinstance(failure, NotFoundError) and failure.code != "NoSuchBucket"
