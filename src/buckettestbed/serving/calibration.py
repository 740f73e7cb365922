"""What a request takes on this machine beyond the latency that is asked for, measured before the testbed serves.

A small server of its own, on a loopback port of its own, answers real requests through the same protocol, network model
and timer as the testbed will. What its client waits in excess of the model is the machine's: two processors that wake
up, the parsing of a request, the writing of an answer.
"""

import asyncio
import socket
import ssl
import statistics
import time
from collections.abc import Collection
from functools import partial

import uvicorn
from uvicorn.server import ServerState

from buckettestbed.model.buckets import Buckets
from buckettestbed.model.memory import MemoryContent, MemoryStorage
from buckettestbed.network.model import NetworkModel
from buckettestbed.operations.routes import UNKNOWN
from buckettestbed.serving.application import Application
from buckettestbed.serving.dialect import Operation, PlainGet
from buckettestbed.serving.messages import ContentSlice, Request, Response
from buckettestbed.serving.protocol import TestbedProtocol

__all__ = ["round_trip_s"]

_PROBES, _UNCOUNTED = 15, 3
"""Requests, and how many of the first of them do not count: caches are cold. *Source*: ours, 65 ms in all."""

_LATENCY_S = 0.002
"""What is asked for, and the pause between requests, in which processors go to sleep as they do while a client waits.
*Source*: ours; the least latency of a preset."""

_MOST_S, _MOST_TLS_S = 200e-6, 300e-6
"""More than that is other load at the moment, not the machine. *Source*: ours; an idle virtual machine of two
processors takes 0.2 ms, and 0.1 ms more with TLS, to a client in a process of its own."""

_REQUEST = b"GET / HTTP/1.1\r\nHost: calibration\r\n\r\n"
_LIMIT_S = 5.0
"""How long one probe may take before calibration is given up. *Source*: ours."""


async def round_trip_s(context: ssl.SSLContext | None = None) -> float:
    """Returns the seconds that a request takes longer than its first-byte latency, 0 where that cannot be measured.

    It is the upper tenth of some requests, bounded against other load on the machine: a client in a process of its own
    waits longer than this one, which shares the server's, by about as much as the upper tenth is above the median.

    Args:
        context: the server's side of TLS, or None for plain HTTP.
    """
    content = MemoryContent([b"x"])
    plain = PlainGet(
        operation=Operation(name=UNKNOWN),
        head=b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n",
        body=ContentSlice(content=content, start=0, stop=1),
    )
    application = Application(
        Buckets(MemoryStorage()), dialects={0: _OneAnswer(plain)}, network=NetworkModel(first_byte_s=_LATENCY_S)
    )
    application.set_network(application.network_model)
    config = uvicorn.Config(application, http=TestbedProtocol, ws="none", log_config=None, access_log=False)
    config.load()
    protocol = partial(TestbedProtocol, config=config, server_state=ServerState(), app_state={})
    try:
        server = await asyncio.get_running_loop().create_server(protocol, "127.0.0.1", 0, ssl=context)
        async with server:
            address = server.sockets[0].getsockname()
            excess_s = await asyncio.to_thread(_excess_s, address, secure=context is not None)
    except OSError:
        return 0.0
    finally:
        application.close()
    most_s = _MOST_S if context is None else _MOST_TLS_S
    return min(most_s, max(0.0, statistics.quantiles(excess_s, n=10, method="inclusive")[-1]))


def _connect(address: tuple[str, int], *, secure: bool) -> socket.socket:
    connection = socket.create_connection(address, timeout=_LIMIT_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if not secure:
        return connection
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # Of the peer only its speed is wanted.
    return context.wrap_socket(connection)


def _excess_s(address: tuple[str, int], *, secure: bool) -> list[float]:
    """Returns by how much each probe took longer than the latency asked for."""
    excess_s = []
    with _connect(address, secure=secure) as connection:
        for _ in range(_PROBES):
            time.sleep(_LATENCY_S)
            begun_s = time.monotonic()
            connection.sendall(_REQUEST)
            answer = connection.recv(4096)
            excess_s.append(time.monotonic() - begun_s - _LATENCY_S)
            while not answer.endswith(b"\r\n\r\nx"):
                more = connection.recv(4096)
                if not more:
                    raise ConnectionError("the calibration's own server closed the connection")
                answer += more
    return excess_s[_UNCOUNTED:]


class _OneAnswer:
    """A dialect that has one answer to every GET."""

    name = "calibration"
    throttled_status = 503

    def __init__(self, plain: PlainGet) -> None:
        self._plain = plain

    def identify(self, request: Request) -> Operation:  # noqa: ARG002 - a dialect's signature.
        """Returns the operation of every request."""
        return self._plain.operation

    async def answer(self, request: Request, operation: Operation) -> Response:  # noqa: ARG002 - as above.
        """Returns 404: only plain GETs come here."""
        return Response(status=404)

    def error(
        self,
        request: Request,  # noqa: ARG002 - as above.
        *,
        status: int,
        code: str | None = None,  # noqa: ARG002 - as above.
        message: str | None = None,  # noqa: ARG002 - as above.
    ) -> Response:
        """Returns an answer of this status."""
        return Response(status=status)

    def plain_get(self, target: bytes, headers: Collection[tuple[bytes, bytes]]) -> PlainGet:  # noqa: ARG002 - as above.
        """Returns the one answer."""
        return self._plain

    def request_id_header(self, request_id: str) -> bytes:  # noqa: ARG002 - as above.
        """Returns none."""
        return b""
