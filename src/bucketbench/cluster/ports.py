"""A port that is agreed on before its server starts, and that nobody else takes meanwhile."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["held_port"]


@contextmanager
def held_port(host: str = "") -> Iterator[int]:
    """A free port, kept for a server that is to be started in this block; until it listens, connections are refused.

    A port that was found free and let go may be another's by then: the system hands it to whoever connects or asks for
    any. One that is bound it hands to nobody, and Linux lets a server bind it as well that asks for ``SO_REUSEADDR``,
    as most do, ``TCPStore`` among them.

    Args:
        host: address that the server will bind; all of them where it is empty.

    Yields:
        The port.
    """
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind((host, 0))  # and never listens: a listener would keep the server out
        yield int(held.getsockname()[1])
