"""The ASGI application: admin route or dialect, counted, and shaped by the network model."""

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextlib import closing, nullcontext
from itertools import count
from typing import Any

from bucketbench.testbed.admin.counters import Counters
from bucketbench.testbed.admin.route import ADMIN_PATH, Admin
from bucketbench.testbed.model.contents import ContentGoneError, Reader
from bucketbench.testbed.model.objects import Buckets
from bucketbench.testbed.network.calibration import round_trip_s
from bucketbench.testbed.network.deadlines import Deadlines
from bucketbench.testbed.network.model import NetworkModel
from bucketbench.testbed.network.shaping import Network, Transfer
from bucketbench.testbed.serving.dialect import UNKNOWN, Dialect, Operation, PlainGet
from bucketbench.testbed.serving.messages import (
    TLS_WRITE_BYTES,
    Body,
    ContentSlice,
    DisconnectedError,
    Request,
    Response,
    parse_query,
)

__all__ = ["Application"]

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
AsgiReceive = Callable[[], Awaitable[Message]]
AsgiSend = Callable[[Message], Awaitable[None]]

_logger = logging.getLogger(__name__)


class Application:
    """The testbed as an ASGI 3 application (`http` and `lifespan` scopes). One event loop owns it.

    Args:
        buckets: what is served.
        dialects: who answers, by the port that a request came to; the first of them also where no port is known.
        network: the model to begin with.
    """

    def __init__(self, buckets: Buckets, *, dialects: Mapping[int, Dialect], network: NetworkModel) -> None:
        self.buckets = buckets
        self.counters = Counters()
        self._model = network
        self._deadlines: Deadlines | None = None
        self._network: Network | None = None
        self._dialects = dict(dialects)
        self._default_dialect = next(iter(dialects.values()))
        self._admin = Admin(
            counters=self.counters, buckets=buckets, network=lambda: self._model, set_network=self.set_network
        )
        self._request_ids = count(1)

    @property
    def network(self) -> Network | None:
        """The network model at work, or None when it is off."""
        return self._network

    def request_id(self) -> str:
        """Returns a request id that no other request has."""
        return f"{next(self._request_ids):016X}"

    def dialect(self, server: tuple[str, int | None] | None) -> Dialect:
        """Returns the dialect of the address that a connection was made to."""
        port = None if server is None else server[1]
        return self._default_dialect if port is None else self._dialects.get(port, self._default_dialect)

    def plain_get(self, dialect: Dialect, target: bytes, headers: list[tuple[bytes, bytes]]) -> PlainGet | None:
        """Returns the answer to a request that a protocol may send by itself, or None where it must call the
        application."""
        plain = dialect.plain_get(target, headers)
        if plain is None or not self._admitted(plain.operation, writes=False):
            return None
        return plain

    def _admitted(self, operation: Operation, *, writes: bool) -> bool:
        """Returns whether the network model's request rates let the request through, and counts it if so."""
        return self._network is None or self._network.admits(
            operation.bucket, operation.key or operation.prefix, writes=writes
        )

    def count_plain_get(self, plain: PlainGet) -> None:
        """Counts what `plain_get` returned as it is being sent."""
        self.counters.requests[plain.operation.name] += 1
        self.counters.bytes_out += plain.body.stop - plain.body.start

    def set_network(self, model: NetworkModel) -> None:
        """Shapes requests that begin from now on by another model. Call it on the loop that serves."""
        if self._deadlines is None:
            self._deadlines = Deadlines(asyncio.get_running_loop())
        self._model = model
        self._network = None if model.off else Network(model, self._deadlines, round_trip_s=round_trip_s())
        self.counters.network = None if self._network is None else self._network.health

    def close(self) -> None:
        """Frees the timer and ends use of the holder."""
        if self._deadlines is not None:
            self._deadlines.close()
            self._deadlines = None
        self.buckets.holder.close()

    async def __call__(self, scope: Scope, receive: AsgiReceive, send: AsgiSend) -> None:
        """Serves one request, or the server's start and end."""
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "http":
            try:
                await self._serve(scope, receive, send)
            except DisconnectedError:
                self.counters.disconnected += 1

    async def _lifespan(self, receive: AsgiReceive, send: AsgiSend) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                self.set_network(self._model)
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                self.close()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _serve(self, scope: Scope, receive: AsgiReceive, send: AsgiSend) -> None:
        raw_path: bytes = scope["raw_path"]
        is_admin = raw_path.startswith(ADMIN_PATH.encode() + b"/")
        dialect = self.dialect(scope.get("server"))
        network = None if is_admin else self._network
        arrived_s = 0.0 if network is None else network.arrived_s()
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        length_bytes = _body_length_bytes(headers)
        upload = None if network is None else network.upload(length_bytes)
        body = Body(self._receiver(receive, upload), length_bytes=length_bytes)
        request = Request(
            method=scope["method"],
            raw_path=raw_path,
            raw_query=scope["query_string"],
            query={},
            headers=headers,
            body=body,
            id=self.request_id(),
            scheme=scope.get("scheme", "http"),
        )
        with upload or nullcontext():
            operation, response = await self._answer(request, scope["query_string"], dialect, is_admin=is_admin)
            closes = not await _drain(body, headers)
        if body.started and network is not None:
            arrived_s = network.arrived_s()
        try:
            reader = _open(response)
        except ContentGoneError as error:
            _logger.warning("%s of %s: %s", operation, raw_path.decode("latin-1"), error)
            reader, response = None, dialect.error(request, status=500)
        if not is_admin:
            self.counters.requests[operation] += 1
            if response.status >= 400:
                self.counters.errors[response.status] += 1
        with closing(reader) if reader is not None else nullcontext():
            if network is not None:
                await network.first_byte(arrived_s)
            write_bytes = TLS_WRITE_BYTES if scope.get("scheme") == "https" else sys.maxsize
            await self._send(response, reader, network, send, write_bytes, closes=closes, counted=not is_admin)

    async def _answer(
        self, request: Request, query_string: bytes, dialect: Dialect, *, is_admin: bool
    ) -> tuple[str, Response]:
        """Returns the operation's name and the answer, by the admin route or by the dialect."""
        try:
            request.query = parse_query(query_string)
        except ValueError:
            return UNKNOWN, dialect.error(request, status=400, message="The query is not percent-encoded UTF-8.")
        if is_admin:
            return "admin", await self._admin.answer(request)
        operation = dialect.identify(request)
        if not self._admitted(operation, writes=request.method not in ("GET", "HEAD")):
            return operation.name, dialect.error(request, status=dialect.throttled_status)
        return operation.name, await dialect.answer(request, operation)

    def _receiver(self, receive: AsgiReceive, upload: Transfer | None) -> Callable[[], Awaitable[tuple[bytes, bool]]]:
        """Returns a function that yields the body as the model's link would carry it."""

        async def next_piece() -> tuple[bytes, bool]:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise DisconnectedError
            piece: bytes = message.get("body", b"")
            self.counters.bytes_in += len(piece)
            if upload is not None and piece:
                upload.begin()
                await upload.due(len(piece))
            return piece, message.get("more_body", False)

        return next_piece

    async def _send(
        self,
        response: Response,
        reader: Reader | None,
        network: Network | None,
        send: AsgiSend,
        write_bytes: int,
        *,
        closes: bool,
        counted: bool,
    ) -> None:
        headers = response.headers
        if response.status not in (204, 304):
            headers = [*headers, (b"content-length", b"%d" % response.length_bytes)]
        if closes:
            headers = [*headers, (b"connection", b"close")]
        await send({"type": "http.response.start", "status": response.status, "headers": headers})
        body, size_bytes = response.body, 0 if response.bodiless else response.length_bytes
        if counted:
            self.counters.bytes_out += size_bytes
        if not size_bytes:
            await send({"type": "http.response.body", "body": b""})
            return
        transfer = None if network is None else network.download(size_bytes)
        with transfer or nullcontext():
            if transfer is not None:
                transfer.begin()
            if isinstance(body, bytes):
                if transfer is not None:
                    await transfer.due(size_bytes)
                await send({"type": "http.response.body", "body": body})
            elif reader is not None:
                await _send_content(reader, body, transfer, send, write_bytes)


def _open(response: Response) -> Reader | None:
    """Opens the content of an answer at once: later it may have been replaced. Raises ContentGoneError."""
    if isinstance(response.body, bytes) or response.bodiless:
        return None
    return response.body.content.open()


async def _send_content(
    reader: Reader, body: ContentSlice, transfer: Transfer | None, send: AsgiSend, write_bytes: int
) -> None:
    write_bytes = min(write_bytes, body.content.piece_bytes)
    start, stop = body.start, body.stop
    while start < stop:
        piece_bytes = write_bytes if transfer is None else transfer.piece_bytes
        piece = reader.read(start, min(stop, start + piece_bytes))
        start += len(piece)
        if transfer is not None:
            await transfer.due(len(piece))
        await send({"type": "http.response.body", "body": piece, "more_body": start < stop})


def _body_length_bytes(headers: dict[str, str]) -> int | None:
    """Returns the length of the body as sent, 0 where there is none, None where it is chunked."""
    if "transfer-encoding" in headers:
        return None
    text = headers.get("content-length", "0")
    return int(text) if text.isascii() and text.isdecimal() else None


async def _drain(body: Body, headers: dict[str, str]) -> bool:
    """Reads what is left of a body, so that the next request can follow; returns False where that would not do.

    S3 closes the connection after refusing an upload early, and keeps reading for a while so that the client can see
    why. Reading to the end has the same effect on a client, and none depends on timing.
    """
    if headers.get("expect", "").lower() == "100-continue" and not body.started and not body.exhausted:
        return False  # The client has not sent the body, and need not.
    async for _ in body.chunks():
        pass
    return True
