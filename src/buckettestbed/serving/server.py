"""The testbed under uvicorn: listening socket, signals, end with the parent, clean shutdown."""

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Iterator, MutableMapping, Sequence
from functools import partial
from types import FrameType
from typing import Any

import uvicorn

from buckettestbed.serving.application import Application
from buckettestbed.serving.bounded import BoundedProtocol
from buckettestbed.serving.calibration import round_trip_s
from buckettestbed.serving.protocol import TestbedProtocol
from buckettestbed.serving.receiving import AsgiReceive
from buckettestbed.serving.sending import AsgiSend

__all__ = ["IDLE_TIMEOUT_S", "listen", "serve"]

IDLE_TIMEOUT_S = 75.0
"""How long a connection stays open whose client is to send something and does not. *Source*: ours, longer than
botocore's and libcurl's pools keep one idle in a benchmark; S3 waits some 20 s for the rest of a request."""

_SHUTDOWN_S = 2
"""How long running requests may take to end after SIGTERM before they are cut. *Source*: ours."""


def listen(host: str, port: int) -> socket.socket:
    """Returns a listening TCP socket; raises OSError, for example where the port is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(1024)
    except OSError:
        listener.close()
        raise
    listener.setblocking(False)
    return listener


class _Server(uvicorn.Server):
    """uvicorn's server, which ends without raising the signal again, reports readiness, and can end with its parent."""

    def __init__(
        self,
        config: uvicorn.Config,
        application: Application,
        admin: uvicorn.Config,
        admin_listener: socket.socket,
        *,
        ready: Callable[[], bool],
        with_parent: bool,
    ) -> None:
        super().__init__(config)
        self._application = application
        self._admin = admin
        self._admin_listener = admin_listener
        self._ready = ready
        self._parent = os.getppid() if with_parent else None

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handles SIGTERM and SIGINT by a clean end, hence exit status 0."""
        signals = (signal.SIGTERM, signal.SIGINT)
        before = {number: signal.signal(number, self.handle_exit) for number in signals}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - the signature of a signal handler.
        """Starts the end; a second signal ends at once."""
        self.force_exit = self.should_exit
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Starts to serve, and says so."""
        await super().startup(sockets)
        self._admin.load()
        protocol = partial(BoundedProtocol, config=self._admin, server_state=self.server_state, app_state={})
        loop = asyncio.get_running_loop()
        self.servers.append(await loop.create_server(protocol, sock=self._admin_listener))
        self._application.set_round_trip(await round_trip_s(self.config.ssl))
        if self._parent is not None:
            loop.add_reader(sys.stdin.fileno(), self._standard_input)
        if not self._ready():  # nothing else may be assigned: a signal may have come by the time it returns
            self.should_exit = True

    def _standard_input(self) -> None:
        if not os.read(sys.stdin.fileno(), 4096):
            asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
            self.should_exit = True

    async def on_tick(self, counter: int) -> bool:
        """Ends also when the parent is gone while someone else, a forked worker, still holds the pipe."""
        if self._parent is not None and os.getppid() != self._parent:
            self.should_exit = True
        return await super().on_tick(counter)


def serve(
    application: Application,
    listeners: Sequence[socket.socket],
    *,
    admin: Callable[[MutableMapping[str, Any], AsgiReceive, AsgiSend], Awaitable[None]],
    admin_listener: socket.socket,
    ready: Callable[[], bool],
    certificate: str | None = None,
    key: str | None = None,
    with_parent: bool = False,
    idle_timeout_s: float = IDLE_TIMEOUT_S,
) -> None:
    """Serves until SIGTERM or SIGINT, or until the parent is gone.

    Args:
        application: what to serve; closed at the end.
        listeners: listening sockets, one a dialect; closed at the end.
        admin: the admin route, an ASGI application; served without TLS.
        admin_listener: its listening socket; closed at the end.
        ready: called once requests are answered; False ends it again.
        certificate: PEM file of the server's certificate chain, for TLS.
        key: PEM file of its key.
        with_parent: end when standard input ends or the parent process changes.
        idle_timeout_s: seconds after which a connection ends whose client is to send something and does not.
    """
    common = partial(
        uvicorn.Config,
        ws="none",
        interface="asgi3",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=idle_timeout_s,  # type: ignore[arg-type]  # The loop's timers take any number.
    )
    config = common(
        application,
        http=TestbedProtocol,
        loop="uvloop",
        lifespan="on",
        timeout_graceful_shutdown=_SHUTDOWN_S,
        backlog=1024,
        ssl_certfile=certificate,
        ssl_keyfile=key,
    )
    server = _Server(config, application, common(admin), admin_listener, ready=ready, with_parent=with_parent)
    server.run(sockets=list(listeners))
