"""A client's connection as faults need it: numbered, and ended cleanly or by a reset."""

import asyncio
import contextlib
import os
import socket
import struct
import sys

__all__ = ["Connection"]

_UNSENT_POLL_S = 0.001
"""How often the kernel is asked whether a client has everything. *Source*: ours; only connections about to be ended."""


class Connection:
    """One connection of a client.

    `number` counts from 1 over the testbed; `lost` says whether the connection has ended, by whoever ended it.
    """

    __slots__ = ("_transport", "lost", "number")

    def __init__(self, transport: asyncio.Transport, number: int) -> None:
        self._transport = transport
        self.number = number
        self.lost = False

    async def close(self) -> None:
        """Ends the connection by TCP FIN once its client has received all that was written, over TLS with the notice
        of the end that belongs to it."""
        if self._transport.is_closing():
            return
        with self._socket() as connected:
            await self._delivered(connected)
            self._transport.close()
            if not self.lost and self._transport.get_extra_info("sslcontext") is not None:
                # The event loop waits for the peer's own notice before it ends TCP; providers do not.
                await self._delivered(connected)
                _end_sending(connected)

    async def reset(self) -> None:
        """Ends the connection by TCP RST once its client has received all that was written.

        Without that wait the kernel would drop what it still holds, and the place of the reset would depend on timing.
        """
        if self._transport.is_closing():
            return
        with self._socket() as connected:
            await self._delivered(connected)
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._transport.abort()

    def _socket(self) -> socket.socket:
        """Returns the socket by a descriptor of its own, which stays valid whatever the event loop closes."""
        return socket.socket(fileno=os.dup(self._transport.get_extra_info("socket").fileno()))

    async def _delivered(self, connected: socket.socket) -> None:
        """Returns when the client has everything, or is gone."""
        while not self.lost and (self._transport.get_write_buffer_size() or _unacknowledged_bytes(connected)):
            await asyncio.sleep(_UNSENT_POLL_S)


def _end_sending(connected: socket.socket) -> None:
    with contextlib.suppress(OSError):  # The client was faster.
        connected.shutdown(socket.SHUT_WR)


def _unacknowledged_bytes(connected: socket.socket) -> int:
    """Returns what the kernel keeps because the peer has not acknowledged it; 0 where it does not tell."""
    if sys.platform != "linux":
        return 0
    import fcntl
    import termios

    answer = fcntl.ioctl(connected.fileno(), termios.TIOCOUTQ, b"\0\0\0\0")
    return int.from_bytes(answer, sys.byteorder)
