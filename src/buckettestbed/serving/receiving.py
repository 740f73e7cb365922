"""Request bodies as they arrive: counted, shaped by the network model, cut by a fault."""

import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

from buckettestbed.network.shaping import Transfer
from buckettestbed.serving.counters import Counters
from buckettestbed.serving.messages import Body, CutError, DisconnectedError

__all__ = ["AsgiReceive", "BodyReceiver", "body_length_bytes", "client_gone", "drain", "no_body"]

AsgiReceive = Callable[[], Awaitable[MutableMapping[str, Any]]]


class BodyReceiver:
    """Yields a request's body as the model's link would carry it; call it for each piece.

    Args:
        receive: ASGI's.
        counters: where its bytes are counted, or None for what is not counted.

    `upload` is the transfer that shapes it, or None; `cut_after_bytes` where a fault cuts it; `ended_s` when its last
    byte was due (time.monotonic), or None before it came.
    """

    def __init__(self, receive: AsgiReceive, counters: Counters | None = None) -> None:
        self._receive = receive
        self._counters = counters
        self.upload: Transfer | None = None
        self.cut_after_bytes: int | None = None
        self.ended_s: float | None = None
        self.received_bytes = 0

    async def __call__(self) -> tuple[bytes, bool]:
        """Returns the next bytes and whether more will come.

        Raises DisconnectedError when the client goes away, and CutError after `cut_after_bytes`, or at the end of a
        body that is shorter.
        """
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise DisconnectedError
        piece: bytes = message.get("body", b"")
        more: bool = message.get("more_body", False)
        self.received_bytes += len(piece)
        if self._counters is not None:
            self._counters.bytes_in += len(piece)
        if self.cut_after_bytes is not None and (self.received_bytes >= self.cut_after_bytes or not more):
            raise CutError(clean=False)
        if self.upload is not None and piece:
            self.upload.begin()
            await self.upload.due(len(piece))
        if not more:
            self.ended_s = time.monotonic() if self.upload is None else self.upload.due_s
        return piece, more


async def client_gone(receive: AsgiReceive) -> None:
    """Returns when the client of a request has gone away."""
    while (await receive())["type"] != "http.disconnect":
        pass


def body_length_bytes(headers: Mapping[str, str]) -> int | None:
    """Returns the length of the body as sent, 0 where there is none, None where it is chunked."""
    if "transfer-encoding" in headers:
        return None
    text = headers.get("content-length", "0")
    return int(text) if text.isascii() and text.isdecimal() else None


async def drain(body: Body, headers: Mapping[str, str]) -> bool:
    """Reads what is left of a body, so that the next request can follow; returns False where that would not do.

    S3 closes the connection after refusing an upload early, and keeps reading for a while so that the client can see
    why. Reading to the end has the same effect on a client, and none depends on timing.
    """
    if headers.get("expect", "").lower() == "100-continue" and not body.started and not body.exhausted:
        return False  # The client has not sent the body, and need not.
    async for _ in body.chunks():
        pass
    return True


def no_body() -> Body:
    """Returns the body of a request that has none."""

    async def nothing() -> tuple[bytes, bool]:
        return b"", False

    return Body(nothing, length_bytes=0)
