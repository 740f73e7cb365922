"""What the server asks of a dialect: one provider's requests and answers over the bucket model."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from buckettestbed.serving.messages import ContentSlice, Request, Response

__all__ = ["Dialect", "Operation", "PlainGet"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Operation:
    """What a request asks for.

    `name` is that of the counters, the same in every dialect where the meaning is; `key` is the object's, empty where
    the request is about a bucket; `prefix` is a listing's.
    """

    name: str
    bucket: str = ""
    key: str = ""
    prefix: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class PlainGet:
    """The answer to a plain GET: its operation, status line and headers save those that each answer has anew, and its
    body."""

    operation: Operation
    head: bytes
    body: ContentSlice


class Dialect(Protocol):
    """Requests of one provider. One event loop owns it."""

    @property
    def name(self) -> str:
        """`s3` or `gcs`."""

    @property
    def throttled_status(self) -> int:
        """The status with which the provider refuses requests above its rate."""

    def identify(self, request: Request) -> Operation:
        """Returns what the request asks for, `unknown` where it is not served or malformed; never raises."""

    async def answer(self, request: Request, operation: Operation) -> Response:
        """Returns the answer, errors included; raises only DisconnectedError."""

    def error(self, request: Request, *, status: int, code: str | None = None, message: str | None = None) -> Response:
        """Returns the provider's answer for an error that is not the model's: injected, or of the network model.

        Args:
            request: what is refused.
            status: of the answer.
            code: the provider's word for it; None for the usual one of this status.
            message: for people; None for the usual one.
        """

    def plain_get(self, target: bytes, headers: Collection[tuple[bytes, bytes]]) -> PlainGet | None:
        """Returns the answer to a request target and headers (names in lower case), or None where the request is not
        plain and must be answered the ordinary way."""

    def request_id_header(self, request_id: str) -> bytes:
        """Returns the header line, ended, that gives an answer its id."""
