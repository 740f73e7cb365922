"""A response written to its connection without an ASGI task: callbacks at the model's deadlines, nothing else.

It costs a third of the CPU of the ordinary way, which matters because the testbed shares the machine with what is
measured.
"""

from collections.abc import Callable
from functools import partial
from typing import Protocol

from buckettestbed.network.shaping import Network, Transfer
from buckettestbed.serving.log import LogEntry
from buckettestbed.serving.messages import ContentSlice

__all__ = ["DirectResponse", "Wire"]


class Wire(Protocol):
    """What a direct response needs of its connection."""

    @property
    def write_bytes(self) -> int:
        """The most that is sensibly written at once."""

    @property
    def writable(self) -> bool:
        """Whether the queue has room."""

    def write(self, data: bytes | memoryview) -> None:
        """Hands bytes to the kernel, or queues them without copying."""

    def call_when_writable(self, callback: Callable[[], None]) -> None:
        """Calls back once the queue has room again; only when `writable` is false."""

    def finished(self) -> None:
        """The response is whole."""

    def failed(self) -> None:
        """The body cannot be sent to its end; the connection must be closed so that the client sees it."""


class DirectResponse:
    """One response on its way.

    Args:
        wire: the connection.
        head: status line and headers, up to the empty line.
        body: what follows.

    `entry` is that of the log, or None; `sent_bytes` what of the body was handed to the connection.

    Raises:
        ContentGoneError: the object's bytes are gone; nothing was written.
    """

    __slots__ = (
        "_at",
        "_head",
        "_piece_bytes",
        "_reader",
        "_stop",
        "_transfer",
        "_wire",
        "cancelled",
        "entry",
        "sent_bytes",
    )

    def __init__(self, wire: Wire, head: bytes, body: ContentSlice) -> None:
        self._reader = body.content.open()
        self._wire = wire
        self._head = head
        self._at, self._stop = body.start, body.stop
        self._piece_bytes = min(body.content.piece_bytes, wire.write_bytes)
        self._transfer: Transfer | None = None
        self.cancelled = False
        self.entry: LogEntry | None = None
        self.sent_bytes = 0

    def start(self, network: Network | None) -> None:
        """Sends the response: now, or when the network model has it due."""
        if network is None:
            self._first_byte(None, 0.0)
        else:
            network.call_at_first_byte(network.arrived_s(), partial(self._first_byte, network))

    def cancel(self) -> None:
        """Stops: the connection is gone."""
        if not self.cancelled:
            self._end()

    def _end(self) -> None:
        self.cancelled = True
        self._reader.close()
        if self._transfer is not None:
            self._transfer.end()

    def _first_byte(self, network: Network | None, _: float) -> None:
        if self.cancelled:
            return
        if self.entry is not None:
            self.entry.first_byte()
        self._wire.write(self._head)
        if network is not None:
            self._transfer = network.download(self._stop - self._at)
            if self._transfer is not None:
                self._transfer.begin()
        self._next()

    def _next(self) -> None:
        """Sends the next pieces until one is not yet due, the connection is full, or all are sent."""
        while not self.cancelled:
            if self._at == self._stop:
                self._end()
                self._wire.finished()
                return
            transfer = self._transfer
            piece_bytes = self._piece_bytes if transfer is None else transfer.piece_bytes
            try:
                piece = self._reader.read(self._at, min(self._stop, self._at + piece_bytes))
            except Exception:
                self._end()
                self._wire.failed()
                raise
            self._at += len(piece)
            if transfer is not None:
                transfer.call_when_due(len(piece), partial(self._send, piece))
                return
            self.sent_bytes += len(piece)
            self._wire.write(piece)
            if self._at < self._stop and not self._wire.writable:
                self._wire.call_when_writable(self._next)
                return

    def _send(self, piece: bytes | memoryview) -> None:
        if self.cancelled:
            return
        self.sent_bytes += len(piece)
        self._wire.write(piece)
        if self._at == self._stop or self._wire.writable:
            self._next()
        else:
            self._wire.call_when_writable(self._next)
