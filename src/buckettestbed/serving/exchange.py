"""One request through ASGI: taken in, answered by a dialect, sent, and seen to its end."""

import logging
from collections.abc import MutableMapping
from contextlib import closing, nullcontext
from typing import Any, Protocol

from buckettestbed.faults.listing import continues
from buckettestbed.faults.plan import Fault
from buckettestbed.model.contents import ContentGoneError, Reader
from buckettestbed.network.shaping import Network
from buckettestbed.operations.routes import UNKNOWN
from buckettestbed.serving.connection import Connection
from buckettestbed.serving.counters import Counters
from buckettestbed.serving.dialect import Dialect, Operation
from buckettestbed.serving.fault_injection import answer_without_effect, before_first_byte, cut
from buckettestbed.serving.log import LogEntry, Outcome, RequestLog
from buckettestbed.serving.messages import Body, CutError, DisconnectedError, Request, Response, parse_query
from buckettestbed.serving.receiving import AsgiReceive, BodyReceiver, body_length_bytes, drain
from buckettestbed.serving.sending import AsgiSend, Outgoing

__all__ = ["CONNECTION", "FAULT", "Exchange"]

CONNECTION = "testbed.connection"
"""Name in a request's scope of its `Connection`."""

FAULT = "testbed.fault"
"""Name in a request's scope of the fault that was drawn for it, None included; absent where none was drawn yet."""

_MALFORMED = Operation(name=UNKNOWN)
"""What a request asks for whose query cannot be decoded."""

_logger = logging.getLogger(__name__)


class Served(Protocol):
    """What an exchange needs of the application."""

    counters: Counters
    log: RequestLog | None

    @property
    def network(self) -> Network | None:
        """The network model at work, or None when it is off."""

    def dialect(self, server: tuple[str, int | None] | None) -> Dialect:
        """Returns the dialect of the address that a connection was made to."""

    def request_id(self) -> str:
        """Returns a request id that no other request has."""

    def draw(self, dialect: Dialect, operation: Operation, method: str, *, continuing: bool) -> Fault | None:
        """Returns the fault to inject into a request, or None, and counts it."""

    def admitted(self, operation: Operation, *, writes: bool) -> bool:
        """Returns whether the network model's request rates let the request through, and counts it if so."""


class Exchange:
    """One request and its answer.

    Args:
        served: the application.
        scope: ASGI's, with the connection.
        receive: ASGI's.
        send: ASGI's.
    """

    def __init__(self, served: Served, scope: MutableMapping[str, Any], receive: AsgiReceive, send: AsgiSend) -> None:
        self._served = served
        self._scope = scope
        self._receive = receive
        self._send = send
        self._connection: Connection = scope[CONNECTION]
        self._dialect = served.dialect(scope.get("server"))
        self._entry: LogEntry | None = None

    async def serve(self) -> None:
        """Answers a request to the dialect, whatever becomes of it."""
        log = self._served.log
        outcome: Outcome = "cut"
        if log is not None:
            self._entry = LogEntry(
                dialect=self._dialect.name,
                method=self._scope["method"],
                connection=self._connection.number,
                headers=self._scope["headers"],
            )
        self._served.counters.request_began()
        try:
            await self._answer_dialect()
            outcome = "whole"
        except CutError as ending:
            await cut(self._connection, self._receive, clean=ending.clean)
        except DisconnectedError:
            outcome = "gone"
            self._served.counters.disconnected += 1
        finally:
            self._served.counters.request_ended()
            if self._entry is not None and log is not None:
                self._entry.outcome = outcome
                log.add(self._entry)

    async def _answer_dialect(self) -> None:
        """Takes the request in and answers it; raises CutError where a fault ends the connection instead."""
        network, counters, entry = self._served.network, self._served.counters, self._entry
        arrived_s = 0.0 if network is None else network.arrived_s()
        receiver = BodyReceiver(self._receive, counters)
        request = self._request(receiver)
        operation = self._identify(request)
        counters.requests[operation.name] += 1
        if entry is not None:
            entry.describe(operation)
            entry.fault = None if request.fault is None else request.fault.kind
        response, closes = await self._take_in(request, receiver, operation, network)
        if receiver.ended_s is not None:  # What the dialect did since then is a part of the first byte's latency.
            arrived_s = receiver.ended_s
        try:
            reader = _open(response)
        except ContentGoneError as error:
            _logger.warning("%s of %s: %s", operation.name, request.raw_path.decode("latin-1"), error)
            reader, response = None, self._dialect.error(request, status=500)
        with closing(reader) if reader is not None else nullcontext():
            if network is not None:
                await network.first_byte(arrived_s)
            if request.fault is not None:
                await before_first_byte(request.fault, self._receive)
            if response.status >= 400:
                counters.errors[response.status] += 1
            outgoing = Outgoing(
                response,
                reader,
                connection=self._connection,
                receive=self._receive,
                send=self._send,
                secure=request.scheme == "https",
                counters=counters,
                entry=entry,
            )
            await outgoing.deliver(closes=closes, network=network, fault=request.fault)

    def _identify(self, request: Request) -> Operation:
        """Returns what a request asks for, having decoded its query and drawn its fault."""
        try:
            request.query = parse_query(request.raw_query)
        except ValueError:
            return _MALFORMED
        operation = self._dialect.identify(request)
        if FAULT in self._scope:
            request.fault = self._scope[FAULT]
        else:
            request.fault = self._served.draw(
                self._dialect, operation, request.method, continuing=continues(request.query)
            )
        return operation

    async def _take_in(
        self, request: Request, receiver: BodyReceiver, operation: Operation, network: Network | None
    ) -> tuple[Response, bool]:
        """Reads a request to its end and does what it asks for; returns the answer, and whether the connection must
        end after it because some of the body was left unread."""
        fault, body = request.fault, request.body
        receiver.upload = None if network is None else network.upload(body.length_bytes)
        try:
            with receiver.upload or nullcontext():
                if fault is not None and fault.kind == "reset_upload":
                    receiver.cut_after_bytes = fault.rule.after_bytes or 0
                    if body.exhausted:
                        raise CutError(clean=False)
                response = await self._answer(request, operation)
                closes = not await drain(body, request.headers)
        finally:
            if self._entry is not None:
                self._entry.bytes_in = receiver.received_bytes
        if self._entry is not None and body.started:
            self._entry.received()
        return response, closes

    async def _answer(self, request: Request, operation: Operation) -> Response:
        """Returns the answer: an injected error, a refusal by the network model's rates, or the dialect's."""
        if operation is _MALFORMED:
            return self._dialect.error(request, status=400, message="The query is not percent-encoded UTF-8.")
        injected = answer_without_effect(self._dialect, request)
        if injected is not None:
            return injected
        if not self._served.admitted(operation, writes=request.method not in ("GET", "HEAD")):
            return self._dialect.error(request, status=self._dialect.throttled_status)
        return await self._dialect.answer(request, operation)

    def _request(self, receiver: BodyReceiver) -> Request:
        """Returns the request as a dialect sees it, its query not yet decoded."""
        scope = self._scope
        headers: dict[str, str] = {}
        for raw_name, raw_value in scope["headers"]:
            name, value = raw_name.decode("latin-1"), raw_value.decode("latin-1")
            # A header that comes twice is one list (RFC 9110, 5.3): a second x-goog-hash hides no first one.
            headers[name] = f"{headers[name]},{value}" if name in headers else value
        return Request(
            method=scope["method"],
            raw_path=scope["raw_path"],
            raw_query=scope["query_string"],
            query={},
            headers=headers,
            body=Body(receiver, length_bytes=body_length_bytes(headers)),
            id=self._served.request_id(),
            scheme=scope.get("scheme", "http"),
        )


def _open(response: Response) -> Reader | None:
    """Opens the content of an answer at once: later it may have been replaced. Raises ContentGoneError."""
    if isinstance(response.body, bytes) or response.bodiless:
        return None
    return response.body.content.open()
