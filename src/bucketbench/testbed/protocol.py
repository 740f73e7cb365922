"""uvicorn's httptools protocol, with connections counted."""

import asyncio
from typing import cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from bucketbench.testbed.application import Application

__all__ = ["TestbedProtocol"]


class TestbedProtocol(HttpToolsProtocol):
    """One connection to the testbed."""

    __test__ = False  # Its name is not that of a test class.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # As uvicorn's own.
        """Counts the connection."""
        super().connection_made(transport)
        cast("Application", self.config.app).counters.connection_opened()

    def connection_lost(self, exc: Exception | None) -> None:
        """Counts its end."""
        super().connection_lost(exc)
        cast("Application", self.config.app).counters.connection_closed()

    def shutdown(self) -> None:
        """Ends the connection when it is idle, without waiting for the peer's part in the end of TLS; else after the running answer."""
        if self.cycle is None or self.cycle.response_complete:
            self.transport.abort()
        else:
            super().shutdown()
