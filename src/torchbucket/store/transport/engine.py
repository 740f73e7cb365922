"""What the loop asks of whatever moves the bytes of its requests."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Protocol, TypeAlias

from torchbucket.store.transport.operation import Operation, Request
from torchbucket.store.transport.request_record import RequestRecord

__all__ = ["Attempt", "Engine", "Events"]

Events: TypeAlias = "list[tuple[int, int]]"
"""Descriptors that are ready, and for what."""


class Attempt:
    """A request on the way, and what has arrived of its answer."""

    __slots__ = (
        "handle",
        "hedge",
        "lines",
        "moved_bytes",
        "moved_s",
        "operation",
        "over",
        "request",
        "started_s",
    )

    def __init__(self, operation: Operation[Any], request: Request) -> None:
        self.operation = operation
        self.request = request
        self.handle: Any = None  # what the engine sends it with
        self.lines: list[bytes] = []
        self.started_s = time.monotonic()
        self.over = False
        self.hedge = False  # whether it is the second request for what another asks for
        self.moved_bytes = -1  # what had arrived when the attempt was last seen to move,
        self.moved_s = self.started_s  # and when that was


class Engine(Protocol):
    """Moves the bytes of requests. Only ``wake`` may be called from another thread than the loop's."""

    @property
    def timer_s(self) -> float | None:
        """When ``fire_timer`` is due, on the monotonic clock."""
        ...

    @property
    def busy(self) -> int:
        """How many attempts are on their way."""
        ...

    def active(self) -> list[Attempt]:
        """The attempts that are on their way."""
        ...

    def wake(self) -> None:
        """End the present or next ``wait`` at once."""
        ...

    def wait(self, timeout_s: float | None) -> Events:
        """Sleep until a connection is ready, someone wakes the engine, or the time is over."""
        ...

    def take(self, events: Events) -> None:
        """Move what the events say is ready."""
        ...

    def fire_timer(self) -> None:
        """Do what was due at ``timer_s``."""
        ...

    def begin(self, attempt: Attempt, left_s: float) -> None:
        """Send a request, which may take ``left_s``."""
        ...

    def ended(self) -> Iterator[tuple[Attempt, Exception | None]]:
        """Hand over the attempts that are over, with the failure of each; the caller calls ``rest`` for every one."""
        ...

    def record(self, attempt: Attempt, error: Exception | None, *, cut: bool = False) -> RequestRecord:
        """Describe an attempt that is over and not yet at rest; ``cut``, because another one is in its place."""
        ...

    def sent_s(self, attempt: Attempt) -> float | None:
        """When the request was sent, on the monotonic clock; None while its connection is being made."""
        ...

    def answered_s(self, attempt: Attempt) -> float | None:
        """When the answer's first byte came, less what the loop was late to notice it; None while none has."""
        ...

    def received_bytes(self, attempt: Attempt) -> int:
        """How much of the answer's body has arrived."""
        ...

    def rest(self, attempt: Attempt) -> None:
        """Let go of an attempt that is over."""
        ...

    def interrupt(self, attempt: Attempt) -> None:
        """Break off an attempt that is on its way; it is over then, and not yet at rest."""
        ...

    def close(self) -> None:
        """End all connections."""
        ...
