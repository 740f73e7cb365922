"""uvicorn's httptools protocol, with bounds on what a client may have it hold and wait for.

uvicorn ends a connection that is idle after an answer. It waits for ever for the first request and for the rest of one,
and holds headers of any length; a client that died, or means harm, would so take descriptors and memory for good.
"""

import asyncio
from typing import TYPE_CHECKING

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

if TYPE_CHECKING:
    from typing import Any

__all__ = ["HEAD_LIMIT_BYTES", "BoundedProtocol", "HeadTooLargeError"]

HEAD_LIMIT_BYTES = 64 << 10
"""The most that a request's line and headers may take. *Source*: ours, some times of what the providers take (S3 8 KiB
of headers), so that no client that works there is refused here."""

_LOOKS = 4
"""How often a connection is looked at within its time limit. *Source*: ours; it ends at most a quarter late, and a look
costs nothing that is noticed."""


class HeadTooLargeError(Exception):
    """A request's line and headers are longer than the limit."""


class BoundedProtocol(HttpToolsProtocol):
    """One connection, which ends when its client makes no progress for as long as it may be idle.

    Progress is a head that is whole, or a byte of a body. Neither a header sent byte by byte is any, nor a trailer.
    While the server is the one to be waited for, or has stopped reading, time does not count.
    """

    def __init__(self, *args: "Any", **kwargs: "Any") -> None:
        super().__init__(*args, **kwargs)
        self._held_bytes = 0  # Arrived since the last progress.
        self._piece_bytes = 0
        self._progressed = False  # Since the piece that is being parsed began.
        self._moved = False  # Since the last look.
        self._fruitless_looks = 0
        self._look_task: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # As uvicorn's own.
        """Begins to look."""
        super().connection_made(transport)
        self._look_later()

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends looking."""
        if self._look_task is not None:
            self._look_task.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parses what came, and refuses more of a head than there may be."""
        self._piece_bytes, self._progressed = len(data), False
        super().data_received(data)
        if self._progressed:
            self._held_bytes, self._moved = 0, True
            return
        self._held_bytes += len(data)
        if self._held_bytes > HEAD_LIMIT_BYTES and not self.transport.is_closing():
            self.refuse_head()

    def on_headers_complete(self) -> None:
        """Goes on with a head of a sensible length; raises HeadTooLargeError, which ends parsing, for another."""
        self._progressed = True
        if self._held_bytes + self._piece_bytes > HEAD_LIMIT_BYTES:  # Seldom, so that the exact length costs nothing.
            size_bytes = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
            if size_bytes > HEAD_LIMIT_BYTES:
                self.refuse_head()
                raise HeadTooLargeError
        self.on_head()

    def on_head(self) -> None:
        """Takes a request whose head has arrived."""
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Counts as progress."""
        self._progressed = True
        super().on_body(body)

    def refuse_head(self) -> None:
        """Answers a request whose head is too long, and ends the connection."""
        super().send_400_response(f"The request's line and headers are longer than {HEAD_LIMIT_BYTES} bytes.")

    def send_400_response(self, msg: str) -> None:
        """Answers what is no request, unless the connection ends already."""
        if not self.transport.is_closing():
            super().send_400_response(msg)

    def _look_later(self) -> None:
        self._look_task = self.loop.call_later(self.timeout_keep_alive / _LOOKS, self._look)

    def _look(self) -> None:
        """Ends the connection where it has been waited for in vain."""
        waits = self._waits_for_client()
        self._fruitless_looks = self._fruitless_looks + 1 if waits and not self._moved else 0
        self._moved = False
        if self._fruitless_looks < _LOOKS:
            self._look_later()
        elif not self.transport.is_closing():
            self.transport.close()

    def _waits_for_client(self) -> bool:
        """Returns whether it is the client's turn: to ask, or to send the rest of what it asks."""
        cycle = self.cycle
        if cycle is None or cycle.response_complete:
            return True
        return cycle.more_body and not self.flow.read_paused
