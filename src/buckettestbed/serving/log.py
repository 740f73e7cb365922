"""The log of requests: what each asked for, what it got, when, over which connection, and which fault was injected."""

import re
import time
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from itertools import islice
from operator import attrgetter
from typing import Any, Literal, cast

from buckettestbed.serving.dialect import Operation

__all__ = ["LogEntry", "LoggedRequest", "Outcome", "RequestLog"]

PAGE_LIMIT = 1000
"""Requests in one answer of the admin route. *Source*: ours; 0.4 MiB of JSON, about 10 ms of the server, during which
it answers no one else."""

Outcome = Literal["whole", "cut", "gone"]
"""How an answer ended: handed over whole; cut by a fault or because the object's bytes were lost; or given up because
the client had gone away."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LoggedRequest:
    """One request as the log has it.

    Args:
        number: place in the log, in the order in which requests ended, from 1.
        dialect: `s3` or `gcs`.
        operation: what was asked for, by the counters' name.
        bucket: name of the bucket, or empty.
        key: the object's key, or the prefix of a listing.
        method: of HTTP.
        range_start: first byte that a Range header asks for; negative counts from the end; None without one.
        range_stop: the byte after the last asked for; None where the range has no end.
        status: of the answer; None where none was begun.
        bytes_in: bytes of the request's body, with its framing.
        bytes_out: bytes of the answer's body that were handed to the connection.
        arrived_s: when the request's headers were whole, seconds since the epoch.
        received_s: seconds from then until its body was whole; None without a body.
        first_byte_s: seconds from then until the answer began to leave; None where it did not.
        end_s: seconds from then until the request was over.
        connection: number of the client's connection, from 1 over the testbed.
        fault: kind of the fault that was injected, or None.
        outcome: `whole`, `cut` by a fault or a loss on the server's side, or `gone`: the client left before the end.
    """

    number: int
    dialect: str
    operation: str
    bucket: str
    key: str
    method: str
    range_start: int | None
    range_stop: int | None
    status: int | None
    bytes_in: int
    bytes_out: int
    arrived_s: float
    received_s: float | None
    first_byte_s: float | None
    end_s: float
    connection: int
    fault: str | None
    outcome: Outcome

    @classmethod
    def from_mapping(cls, values: Mapping[str, object]) -> "LoggedRequest":
        """Returns the request that `LogEntry.to_mapping` described."""
        return cls(**cast("dict[str, Any]", dict(values)))


class LogEntry:
    """A request that is being served; its fields are those of `LoggedRequest`, filled in as they become known."""

    __slots__ = (
        "_began_s",
        "arrived_s",
        "bucket",
        "bytes_in",
        "bytes_out",
        "connection",
        "dialect",
        "end_s",
        "fault",
        "first_byte_s",
        "key",
        "method",
        "number",
        "operation",
        "outcome",
        "range_header",
        "received_s",
        "status",
    )

    def __init__(
        self, *, dialect: str, method: str, connection: int, headers: Iterable[tuple[bytes, bytes]] = ()
    ) -> None:
        self._began_s = time.monotonic()
        self.arrived_s = time.time()
        self.number = 0
        self.dialect = dialect
        self.operation = self.bucket = self.key = ""
        self.method = method
        self.range_header = next((value for name, value in headers if name == b"range"), b"")
        self.connection = connection
        self.status: int | None = None
        self.bytes_in = self.bytes_out = 0
        self.received_s: float | None = None
        self.first_byte_s: float | None = None
        self.end_s = 0.0
        self.fault: str | None = None
        self.outcome: Outcome = "cut"

    def describe(self, operation: Operation) -> None:
        """Notes what the request asks for."""
        self.operation = operation.name
        self.bucket = operation.bucket
        self.key = operation.key or operation.prefix

    def received(self) -> None:
        """Notes that the request's body is whole."""
        self.received_s = time.monotonic() - self._began_s

    def first_byte(self) -> None:
        """Notes that the answer begins to leave."""
        self.first_byte_s = time.monotonic() - self._began_s

    def ended(self) -> None:
        """Notes that the request is over."""
        self.end_s = time.monotonic() - self._began_s

    def to_mapping(self) -> dict[str, object]:
        """Returns the fields of a `LoggedRequest`."""
        start, stop = _asked_range(self.range_header)
        return {**dict(zip(_PLAIN_FIELDS, _plain_values(self), strict=True)), "range_start": start, "range_stop": stop}


_RANGE = re.compile(rb"\s*bytes\s*=\s*(\d{0,19})\s*-\s*(\d{0,19})\s*\Z", re.IGNORECASE)
_PLAIN_FIELDS = tuple(field.name for field in fields(LoggedRequest) if not field.name.startswith("range_"))
_plain_values = attrgetter(*_PLAIN_FIELDS)


def _asked_range(header: bytes) -> tuple[int | None, int | None]:
    """Returns what a Range header asks for, whatever the object's size; nothing where it is not one plain range."""
    match = _RANGE.match(header)
    if match is None or match[1] == match[2] == b"":
        return None, None
    if not match[1]:
        return -int(match[2]), None
    return int(match[1]), int(match[2]) + 1 if match[2] else None


class RequestLog:
    """The latest requests, numbered in the order in which they ended. One event loop owns it.

    Args:
        limit: the most that are kept; older ones are dropped. *Cost*: about 430 bytes each.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._entries: deque[LogEntry] = deque(maxlen=limit)
        self._last = 0

    def add(self, entry: LogEntry) -> None:
        """Keeps a request that is over, and gives it its number."""
        entry.ended()
        self._last += 1
        entry.number = self._last
        self._entries.append(entry)

    def reset(self) -> None:
        """Forgets all; numbers start again at 1."""
        self._entries.clear()
        self._last = 0

    def state(self) -> dict[str, int]:
        """Returns the `limit`, the number of the `last` request, and how many were `dropped` since the reset."""
        return {"limit": self.limit, "last": self._last, "dropped": self._last - len(self._entries)}

    def page(self, after: int = 0) -> dict[str, object]:
        """Returns the requests numbered above `after`, at most `PAGE_LIMIT` of them.

        `requests` are they, `more` says whether there are later ones, `dropped` how many above `after` were dropped.
        """
        dropped = self._last - len(self._entries)
        start = max(0, after - dropped)
        shown = [entry.to_mapping() for entry in islice(self._entries, start, start + PAGE_LIMIT)]
        return {
            "requests": shown,
            "more": start + len(shown) < len(self._entries),
            "dropped": max(0, dropped - after),
        }
