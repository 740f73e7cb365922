"""One answer on its way to its client through ASGI: shaped by the network model, with a fault injected."""

import sys
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import nullcontext
from typing import Any

from buckettestbed.faults.drip import Drip
from buckettestbed.faults.plan import Fault
from buckettestbed.model.contents import Reader
from buckettestbed.network.shaping import Network, Transfer
from buckettestbed.serving.connection import Connection
from buckettestbed.serving.counters import Counters
from buckettestbed.serving.fault_injection import corrupted, inject_inside_body, place_inside_body
from buckettestbed.serving.log import LogEntry
from buckettestbed.serving.messages import TLS_WRITE_BYTES, DisconnectedError, Response
from buckettestbed.serving.receiving import AsgiReceive

__all__ = ["AsgiSend", "Outgoing"]

AsgiSend = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class Outgoing:
    """An answer and where it goes.

    Args:
        response: the answer.
        reader: the opened content of its body, or None where the body is bytes or there is none.
        connection: that it goes over.
        receive: ASGI's; tells when the client has gone.
        send: ASGI's.
        secure: whether the connection is TLS.
        counters: where its bytes are counted.
        entry: of the log, or None.
    """

    def __init__(
        self,
        response: Response,
        reader: Reader | None,
        *,
        connection: Connection,
        receive: AsgiReceive,
        send: AsgiSend,
        secure: bool,
        counters: Counters,
        entry: LogEntry | None,
    ) -> None:
        self._response = response
        self._reader = reader
        self._connection = connection
        self._receive = receive
        self._send = send
        self._write_bytes = TLS_WRITE_BYTES if secure else sys.maxsize
        self._counters = counters
        self._entry = entry

    async def deliver(self, *, closes: bool, network: Network | None, fault: Fault | None) -> None:
        """Sends all of the answer.

        Raises CutError where the fault ends it, DisconnectedError where the client went away before it was handed over.

        Args:
            closes: whether the connection ends after it.
            network: the model that shapes it, or None.
            fault: what is injected into it, or None.
        """
        response = self._response
        headers = response.headers
        if response.status not in (204, 304):
            headers = [*headers, (b"content-length", b"%d" % response.length_bytes)]
        if closes:
            headers = [*headers, (b"connection", b"close")]
        if self._entry is not None:
            self._entry.status = response.status
            self._entry.first_byte()
        await self._send({"type": "http.response.start", "status": response.status, "headers": headers})
        size_bytes = 0 if response.bodiless else response.length_bytes
        if size_bytes:
            transfer = None if network is None else network.download(size_bytes)
            with transfer or nullcontext():
                await self._send_body(size_bytes, transfer, fault)
        else:
            if fault is not None and place_inside_body(fault, 0) is not None:
                await inject_inside_body(fault, self._receive)
            await self._send({"type": "http.response.body", "body": b""})
        if self._connection.lost:
            raise DisconnectedError

    async def _send_body(self, size_bytes: int, transfer: Transfer | None, fault: Fault | None) -> None:
        drip = Drip(fault.rule.bytes_per_s) if fault is not None and fault.rule.bytes_per_s is not None else None
        place = place_inside_body(fault, size_bytes)
        if transfer is not None:
            transfer.begin()
        sent_bytes = 0
        while sent_bytes < size_bytes:
            if fault is not None and sent_bytes == place:
                await inject_inside_body(fault, self._receive)
            stop = min(size_bytes, sent_bytes + self._piece_bytes(transfer, drip))
            if place is not None and sent_bytes < place:
                stop = min(stop, place)
            piece = self._read(sent_bytes, stop)
            if fault is not None and fault.kind == "corrupt":
                piece = corrupted(fault, piece, sent_bytes, size_bytes)
            for pace in (transfer, drip):
                if pace is not None:
                    await pace.due(len(piece))
            if self._connection.lost:
                raise DisconnectedError
            sent_bytes += len(piece)
            self._count(len(piece))
            await self._send({"type": "http.response.body", "body": piece, "more_body": sent_bytes < size_bytes})

    def _piece_bytes(self, transfer: Transfer | None, drip: Drip | None) -> int:
        pieces = [pace.piece_bytes for pace in (transfer, drip) if pace is not None]
        body = self._response.body
        return min(
            [
                self._write_bytes if isinstance(body, bytes) else min(self._write_bytes, body.content.piece_bytes),
                *pieces,
            ]
        )

    def _read(self, start: int, stop: int) -> bytes | memoryview:
        """Returns bytes of the body, fewer than asked for where the content has them in pieces."""
        body = self._response.body
        if isinstance(body, bytes):
            return body if stop - start == len(body) else body[start:stop]
        assert self._reader is not None
        return self._reader.read(body.start + start, body.start + stop)

    def _count(self, size_bytes: int) -> None:
        self._counters.bytes_out += size_bytes
        if self._entry is not None:
            self._entry.bytes_out += size_bytes
