"""Requests and responses as a dialect sees them, apart from ASGI and from the network model."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import unquote_to_bytes

from buckettestbed.faults.plan import Fault
from buckettestbed.model.contents import Content

__all__ = [
    "TLS_WRITE_BYTES",
    "Body",
    "BodyTooLargeError",
    "ChunkSignatures",
    "ContentSlice",
    "CutError",
    "DisconnectedError",
    "Request",
    "Response",
    "parse_query",
]

Receive = Callable[[], Awaitable[tuple[bytes, bool]]]
"""Returns the next bytes of a request's body and whether more will come; raises DisconnectedError."""


TLS_WRITE_BYTES = 256 << 10
"""The most that is written at once over TLS, because a write encrypts all of it before anyone else is served; plain TCP
has no limit, because nothing is copied. *Source*: 256 KiB take about 0.2 ms to encrypt."""


class DisconnectedError(Exception):
    """The client went away before its request was complete."""


class CutError(DisconnectedError):
    """A fault ends the connection: `clean` says whether by FIN, else by RST."""

    def __init__(self, *, clean: bool) -> None:
        super().__init__()
        self.clean = clean


class BodyTooLargeError(Exception):
    """A body that must be held whole is larger than its limit."""


class Body:
    """The body of a request, read once, piece by piece."""

    def __init__(self, receive: Receive, *, length_bytes: int | None = None) -> None:
        self._receive = receive
        self.length_bytes = length_bytes
        self.exhausted = length_bytes == 0
        self.started = False

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yields what is left of the body as it arrives; raises DisconnectedError."""
        while not self.exhausted:
            self.started = True
            chunk, more = await self._receive()
            self.exhausted = not more
            if chunk:
                yield chunk

    async def read(self, limit_bytes: int) -> bytes:
        """Returns what is left of the body; raises BodyTooLargeError above the limit."""
        collected = bytearray()
        async for chunk in self.chunks():
            collected += chunk
            if len(collected) > limit_bytes:
                raise BodyTooLargeError(f"more than {limit_bytes} bytes")
        return bytes(collected)


class ChunkSignatures(Protocol):
    """Checks a body that is signed chunk by chunk; its methods raise the dialect's error where a signature is not the
    sender's."""

    def update(self, data: bytes) -> None:
        """Takes in the next bytes of the chunk that arrives."""

    def end_chunk(self, signature: str | None) -> None:
        """Checks the chunk that has arrived whole; None where its line had no signature."""

    def end_trailer(self, trailer: bytes, signature: str | None) -> None:
        """Checks the trailing headers, `name:value\\n` each in the order they came, without the signature's own."""


@dataclass(eq=False, kw_only=True, slots=True)
class Request:
    """One request: header names in lower case, `raw_path` and `raw_query` as they were sent, undecoded, `query`
    decoded; `scheme` is `http` or `https`.

    Where credentials are required, `may_write` says whether the sender's permit changes, and `chunk_signatures` checks
    a body that is signed in chunks. `fault` is what is injected, if anything is: a dialect honours those of
    listings by `faults.listing.list_page`, the server all others.
    """

    method: str
    raw_path: bytes
    raw_query: bytes = b""
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: Body
    id: str
    scheme: str = "http"
    may_write: bool = True
    chunk_signatures: ChunkSignatures | None = None
    fault: Fault | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ContentSlice:
    """The bytes of a content from `start` to before `stop`, as a response's body."""

    content: Content
    start: int
    stop: int


@dataclass(eq=False, kw_only=True, slots=True)
class Response:
    """One response. `content_length` is stated apart from the body for an answer to HEAD."""

    status: int
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    body: bytes | ContentSlice = b""
    content_length: int | None = None

    @property
    def bodiless(self) -> bool:
        """Whether nothing follows the headers: an answer to HEAD, or a status that has no body."""
        return self.content_length is not None or self.status in (204, 304)

    @property
    def length_bytes(self) -> int:
        """Length of the body that is stated in Content-Length."""
        if self.content_length is not None:
            return self.content_length
        if isinstance(self.body, bytes):
            return len(self.body)
        return self.body.stop - self.body.start


def parse_query(query_string: bytes) -> dict[str, str]:
    """Returns the parameters of a query; a name without `=` has an empty value, `+` is a space, the first of equals
    counts.

    Raises UnicodeDecodeError (a ValueError) where the decoded bytes are not UTF-8.
    """
    parameters: dict[str, str] = {}
    for item in query_string.split(b"&"):
        if item:
            name, _, value = item.partition(b"=")
            decoded = unquote_to_bytes(value.replace(b"+", b" ")).decode()
            parameters.setdefault(unquote_to_bytes(name.replace(b"+", b" ")).decode(), decoded)
    return parameters
