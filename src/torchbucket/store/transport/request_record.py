"""What one request did: the record that an observer of a store receives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from torchbucket.public import public_in

__all__ = ["Observer", "RequestRecord"]


@public_in("torchbucket.store")
@dataclass(frozen=True, kw_only=True, slots=True)
class RequestRecord:
    """One attempt of one request, successful or not. Times are those of ``time.monotonic``.

    Args:
        operation: the request's kind, such as ``get_object`` or ``upload_part``.
        key: the object's key, or the prefix of a listing.
        attempt: 1 for the first try.
        status: the HTTP status, or None where no answer arrived.
        started_s: when the request was handed to libcurl.
        first_byte_s: when the answer's first byte arrived, or None.
        ended_s: when the attempt was over.
        bytes_received: bytes of the answer's body.
        bytes_sent: bytes of the request's body.
        error: why the attempt failed, or None.
        hedge: it was the second request for a read whose first byte was late; ``docs/retries.md`` tells when.
        cut: it was broken off, because the other request of such a read answered first or because its operation was
            given up; what had arrived of it was thrown away.
    """

    operation: str
    key: str
    attempt: int
    status: int | None
    started_s: float
    first_byte_s: float | None
    ended_s: float
    bytes_received: int
    bytes_sent: int
    error: str | None = None
    hedge: bool = False
    cut: bool = False


Observer: TypeAlias = Callable[[RequestRecord], None]
"""Called after every attempt, on the store's own thread: it must be quick, and what it raises is logged and dropped."""
