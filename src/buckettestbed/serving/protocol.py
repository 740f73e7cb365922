"""One connection to the testbed: uvicorn's, bounded and counted, with plain GETs answered without an ASGI task.

What a plain GET is, the dialect of the connection says; everything else, pipelined requests included, goes uvicorn's
way to the application.
"""

import asyncio
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from buckettestbed.model.contents import ContentGoneError
from buckettestbed.serving.application import Application
from buckettestbed.serving.bounded import HEAD_LIMIT_BYTES, BoundedProtocol
from buckettestbed.serving.connection import Connection
from buckettestbed.serving.dialect import PlainGet
from buckettestbed.serving.direct import DirectResponse
from buckettestbed.serving.exchange import CONNECTION
from buckettestbed.serving.messages import TLS_WRITE_BYTES, Request
from buckettestbed.serving.receiving import no_body

if TYPE_CHECKING:
    from typing import Any

__all__ = ["TestbedProtocol"]


class _DirectCycle:
    """Stands where uvicorn keeps the running request, so that it queues what is pipelined behind it and shuts down
    after it."""

    def __init__(self) -> None:
        self.response_complete = True
        self.disconnected = False
        self.keep_alive = True
        self.more_body = False
        self.message_event = self

    def set(self) -> None:
        """uvicorn wakes a request's task so; here is none."""


class TestbedProtocol(BoundedProtocol):
    """One connection to the testbed."""

    __test__ = False  # Its name is not that of a test class.

    def __init__(self, *args: "Any", **kwargs: "Any") -> None:
        super().__init__(*args, **kwargs)
        self._application = cast("Application", self.config.app)
        self._direct_cycle = _DirectCycle()
        self.write_bytes = sys.maxsize
        self._plain: PlainGet | None = None
        self._response: DirectResponse | None = None
        self._when_writable: Callable[[], None] | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # As uvicorn's own.
        """Counts the connection."""
        super().connection_made(transport)
        self._dialect = self._application.dialect(self.server)
        self.write_bytes = TLS_WRITE_BYTES if self.scheme == "https" else sys.maxsize
        self._connection = Connection(transport, self._application.connection_number())
        self._application.counters.connection_opened()

    def connection_lost(self, exc: Exception | None) -> None:
        """Counts its end, and stops what was being sent."""
        self._connection.lost = True
        if self._response is not None:
            self._response.cancel()
            self._end_response(whole=False, lost=True)
        super().connection_lost(exc)
        self._application.counters.connection_closed()

    def shutdown(self) -> None:
        """Ends an idle connection without waiting for the peer's part in the end of TLS; a busy one after its
        answer."""
        if self.cycle is None or self.cycle.response_complete:
            self.transport.abort()
        else:
            super().shutdown()

    def on_head(self) -> None:
        """Looks whether the request is plain, else hands it to uvicorn."""
        if (
            self.parser.get_method() == b"GET"
            and (self.cycle is None or self.cycle.response_complete)
            and self.parser.get_http_version() == "1.1"
            and self.parser.should_keep_alive()
            and not self.parser.should_upgrade()
        ):
            scope = cast("dict[str, Any]", self.scope)
            self._plain = self._application.plain_get(self._dialect, self.url, self.headers, scope)
            if self._plain is not None:
                return
        self._call_application()

    def _call_application(self) -> None:
        """Hands the request to uvicorn, which calls the application with the connection in its scope."""
        cast("dict[str, Any]", self.scope)[CONNECTION] = self._connection
        super().on_head()

    def refuse_head(self) -> None:
        """Answers in the dialect's words, and ends the connection."""
        path = self.url.partition(b"?")[0] if self.url else b"/"
        request_id = self._application.request_id()
        response = self._dialect.error(
            Request(method="GET", raw_path=path, query={}, headers={}, body=no_body(), id=request_id),
            status=400,
            code="RequestHeaderSectionTooLarge",
            message=f"The request's line and headers are longer than {HEAD_LIMIT_BYTES} bytes.",
        )
        assert isinstance(response.body, bytes), "an error's document is whole"
        self._application.counters.errors[response.status] += 1
        headers = [*self.server_state.default_headers, *response.headers]
        lines = b"".join(b"%s: %s\r\n" % header for header in headers)
        length = b"content-length: %d\r\nconnection: close\r\n\r\n" % len(response.body)
        self.transport.write(b"HTTP/1.1 400 Bad Request\r\n%s%s%s" % (lines, length, response.body))
        self.transport.close()

    def on_body(self, body: bytes) -> None:
        """Hands a piece of a body to uvicorn, which copies it twice unless it is the only one that waits."""
        if self._plain is not None:  # A GET with a body: none that counts.
            self._progressed = True
            return
        if not self.cycle.body and not self.cycle.response_complete:
            self.cycle.body = body  # type: ignore[assignment]  # bytes do where uvicorn has a bytearray: it only adds to it.
            body = b""
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Answers a plain GET."""
        plain, self._plain = self._plain, None
        if plain is None:
            super().on_message_complete()
            return
        dates = b"".join(b"%s: %s\r\n" % header for header in self.server_state.default_headers)
        request_id = self._dialect.request_id_header(self._application.request_id())
        head = b"%s%s%s\r\n" % (plain.head, dates, request_id)
        try:
            response = DirectResponse(self, head, plain.body)
        except ContentGoneError:
            self._call_application()  # The ordinary way has the error's answer.
            super().on_message_complete()
            return
        self._unset_keepalive_if_required()
        self._direct_cycle.response_complete = False
        self.cycle = cast("RequestResponseCycle", self._direct_cycle)
        self._response = response
        response.entry = self._application.begin_plain_get(plain, self._dialect, self._connection, self.headers)
        response.start(self._application.network)

    def write(self, data: bytes | memoryview) -> None:
        """Hands bytes to the transport, which does not copy what it queues."""
        self.transport.write(data)

    @property
    def writable(self) -> bool:
        """Whether the transport's queue is below its mark."""
        return not self.flow.write_paused

    def call_when_writable(self, callback: Callable[[], None]) -> None:
        """Calls back when the transport's queue has drained below its mark."""
        self._when_writable = callback

    def resume_writing(self) -> None:
        """Goes on with what waited for room."""
        super().resume_writing()
        callback, self._when_writable = self._when_writable, None
        if callback is not None:
            callback()

    def finished(self) -> None:
        """Ends the running response; the next request may follow."""
        self._end_response(whole=True)
        self._direct_cycle.response_complete = True
        if not self._direct_cycle.keep_alive:
            self.transport.close()
        self.on_response_complete()

    def failed(self) -> None:
        """Cuts the connection, so that a short body is not taken for a whole one."""
        self._end_response(whole=False)
        self._direct_cycle.response_complete = True
        self.transport.abort()

    def _end_response(self, *, whole: bool, lost: bool = False) -> None:
        response, self._response, self._when_writable = self._response, None, None
        if response is not None:
            self._application.end_plain_get(response.entry, sent_bytes=response.sent_bytes, whole=whole, lost=lost)
