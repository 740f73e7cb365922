"""One request to a server, tried until it succeeds: what the transport runs and what a dialect writes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeAlias, TypeVar

from torchbucket.errors import ConfigError, StoreError, TransportError
from torchbucket.store.store_future import StoreFuture
from torchbucket.store.transport.body import Body

__all__ = ["Again", "Answer", "Call", "HedgedOperation", "NextRequest", "Operation", "Request", "Sink"]

T = TypeVar("T")

Sink: TypeAlias = Callable[[bytes], int | None]
"""Takes a chunk of a body. It must not raise; returning a number other than the chunk's length ends the attempt."""


@dataclass(kw_only=True, slots=True)
class Request:
    """One HTTP request, complete with its signature, which its representation does not show.

    Args:
        method: such as ``GET``.
        url: complete and encoded.
        headers: lines as they are sent.
        body: None where the method has none; a document in ``bytes``, an object's content in a ``Body``.
        once: must not be repeated behind the operation's back. libcurl does repeat a request that got no answer on a
            connection used before, if it has no body to send again; this one gets a connection of its own.

    Raises:
        ConfigError: a line or the address has a line break or another character that none can have: what a version, a
            token or an answer brought from outside would else become a header of its own.
    """

    method: str
    url: str
    headers: list[str] = field(repr=False)
    body: bytes | Body | None = field(default=None, repr=False)
    once: bool = False

    def __post_init__(self) -> None:
        if _is_one_line("".join((self.url, *self.headers))):
            return
        if not _is_one_line(self.url):
            raise ConfigError(f"{self.method}: the address {self.url!r} has a character that none can have")
        wrong = (line for line in self.headers if not _is_one_line(line))
        names = ", ".join(repr(line.partition(":")[0]) for line in wrong)  # The value may be a secret.
        raise ConfigError(f"{self.method}: the header {names} would have a character that no header can have")


def _is_one_line(text: str) -> bool:
    return text.isascii() and not ("\n" in text or "\r" in text or "\0" in text)


class Answer:
    """Status and headers of an answer, and of a small one the body.

    Args:
        lines: the header lines as they arrived; those of interim answers and proxies may come before.
        body: the body, empty where the operation stored it elsewhere.
    """

    __slots__ = ("body", "headers", "status")

    def __init__(self, lines: list[bytes], body: bytes = b"") -> None:
        head = b"".join(lines).decode("latin-1")
        status, *fields = head[head.rfind("\nHTTP/") + 1 :].split("\n")
        if not status.startswith("HTTP/"):
            raise ValueError("the answer has no status line")
        self.status = int(status.split(None, 2)[1])
        headers: dict[str, str] = {}
        for line in fields:
            name, separator, value = line.partition(":")
            if separator:
                field, text = name.lower(), value.strip()
                # A repeated field is one list. Cloud Storage sends x-goog-hash twice. Source: RFC 9110, section 5.3.
                headers[field] = text if field not in headers else f"{headers[field]}, {text}"
        self.headers = headers
        self.body = body


class Again(Exception):  # noqa: N818  # no error of its own: it carries the one to raise when no attempt is left
    """The attempt failed in a way that another may not.

    Args:
        error: what to raise when no attempt is left.
        after_s: how long the server asked to wait, or None.
        unreachable: no connection came about, since the name is unknown or the port refuses.
    """

    def __init__(self, error: StoreError, after_s: float | None = None, *, unreachable: bool = False) -> None:
        super().__init__(str(error))
        self.error = error
        self.after_s = after_s
        self.unreachable = unreachable


class NextRequest(Exception):  # noqa: N818  # no error: a step of an operation that needs more than one request
    """The request did its part and the operation's next one, which ``build`` makes, should be sent at once."""


class Operation(Generic[T]):
    """One request with all its attempts.

    Everything but the constructor runs on the transport's thread, one call at a time.

    Args:
        name: the request's kind, such as ``get_object``.
        key: the object's key.
        uri: the object's address, for messages.
    """

    attempts = 0
    deadline_s: float | None = None
    begun = False
    dropped = False
    satisfied = False
    """Whether the sink ended the attempt because it needs no more of the answer, which then counts as whole."""
    transport: object = None
    """What runs it, kept alive until it is over: a store may be collected while its reads are awaited."""
    _chunks: list[bytes]

    def __init__(self, name: str, key: str, uri: str) -> None:
        self.name = name
        self.key = key
        self.uri = uri
        self.future: StoreFuture[T] = StoreFuture()

    def error(self, why: str, kind: type[StoreError] = TransportError) -> StoreError:
        """Make an error that tells which request for what it is about."""
        return kind(f"{self.name} {self.uri}: {why}", operation=self.name, uri=self.uri)

    def build(self) -> Request:
        """Make the next attempt's request, signed now."""
        raise NotImplementedError

    def sink(self, lines: list[bytes]) -> Sink:  # noqa: ARG002  # for those that look before they store
        """Return what takes the next attempt's body; by its first call ``lines`` holds the answer's headers."""
        self._chunks = []
        return self._chunks.append

    def body(self) -> bytes:
        """The body that the default sink collected."""
        chunks = self._chunks
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def finish(self, lines: list[bytes]) -> T:
        """Judge a whole answer: return the result, or raise ``Again``, or any other error to give up."""
        raise NotImplementedError

    def interrupted(self, lines: list[bytes]) -> Exception | None:  # noqa: ARG002  # as above
        """Note that the attempt broke off, perhaps inside the body; return an error where the sink ended it."""
        return None


class HedgedOperation(Operation[T]):
    """An operation that may be asked for a second time while its first request is on the way; see ``hedge_race``."""

    def twin(self) -> Operation[T] | None:
        """Make an operation that asks for the same and touches nothing of this one's; None where it cannot be now."""
        raise NotImplementedError

    def adopt(self, result: T) -> T:
        """Make a twin's result this operation's, whose own request has ended and will never be asked again."""
        raise NotImplementedError


class Call(Operation[T]):
    """An operation made of two functions, for requests with small bodies."""

    def __init__(
        self, name: str, key: str, uri: str, build: Callable[[], Request], judge: Callable[[Answer], T]
    ) -> None:
        super().__init__(name, key, uri)
        self._build = build
        self._judge = judge

    def build(self) -> Request:
        return self._build()

    def finish(self, lines: list[bytes]) -> T:
        return self._judge(Answer(lines, self.body()))
