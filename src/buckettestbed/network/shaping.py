"""Bandwidth as the network model has it, exact whatever the number of connections.

All connections have the same limit, so at any moment each that transfers gets the same rate,
`r = min(connection limit, total / transferring)`. A *service clock* therefore suffices: S(t) = ∫ r dt, in bytes. Byte k
of a transfer that began at S₀ is due when S reaches S₀ + k. Deadlines are points on that clock, never delays, so late
timers do not add up.
"""

import asyncio
import heapq
import math
import time
from collections.abc import Callable
from itertools import count
from types import TracebackType
from typing import Protocol

from buckettestbed.network.deadlines import Deadlines, Handle
from buckettestbed.network.health import Health
from buckettestbed.network.latency import FirstByte
from buckettestbed.network.model import NetworkModel
from buckettestbed.network.rates import RequestRates

__all__ = ["Network", "Scheduler", "ServiceClock", "Transfer"]

CATCH_UP_S = 0.05
"""How far behind its deadlines a transfer may fall and still catch up at full speed. Longer: the client reads slowly,
or the machine cannot carry the model; a real link would not send the backlog faster either. *Source*: ours, several
scheduler time slices."""

_SAME_TIME_S = 1e-6
"""Deadlines closer than this are one: a timer is not set again for the rounding of a sum."""

_PIECE_S = 0.0025
_PIECES_PER_S = 4000
_PIECE_LEAST_BYTES, _PIECE_MOST_BYTES = 16 << 10, 1 << 20
"""A piece is what a connection sends in 2.5 ms, or longer where many transfer, so that all together send 4,000 pieces a
second; within these bounds. The end of a transfer is exact whatever its pieces. *Source*: ours; a piece costs about
20 µs of the testbed, so 4,000 take less than a tenth of a core."""


class Scheduler(Protocol):
    """What a service clock needs of `Deadlines`."""

    def call_at(self, when_s: float, callback: Callable[[float], None]) -> Handle:
        """Calls back at a point of time."""


class ServiceClock:
    """The bytes that each transferring connection may have sent since the beginning. One event loop owns it.

    Args:
        deadlines: where it has itself called when a target is due.
        each_bytes_per_s: limit of each connection, or None.
        total_bytes_per_s: limit of all together, or None.
        clock: seconds, the same clock that `deadlines` runs on.
    """

    def __init__(
        self,
        deadlines: Scheduler,
        *,
        each_bytes_per_s: float | None,
        total_bytes_per_s: float | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._deadlines = deadlines
        self._clock = clock
        self._each = float("inf") if each_bytes_per_s is None else each_bytes_per_s
        self._total = float("inf") if total_bytes_per_s is None else total_bytes_per_s
        self._transferring = 0
        self._served = 0.0
        self._at_s = self._clock()
        self._targets: list[tuple[float, int, Callable[[float], None], Transfer | None]] = []
        self._reached: list[tuple[Callable[[float], None], float]] = []
        self._order = count()
        self._handle: Handle | None = None

    @property
    def rate_bytes_per_s(self) -> float:
        """Bytes per second of each transferring connection at this moment."""
        return min(self._each, self._total / max(1, self._transferring))

    @property
    def transferring(self) -> int:
        """How many connections transfer at this moment."""
        return self._transferring

    def now(self) -> float:
        """Returns the clock, brought up to the present."""
        self._advance(self._clock())
        return self._served

    def late_s(self, due_s: float) -> float:
        """Returns by how many seconds a point of time has passed."""
        return max(0.0, self._clock() - due_s)

    def _advance(self, now_s: float) -> None:
        """Brings the clock to `now_s`, passing on the way every target that was due, each at its own time."""
        while self._targets:
            target, _order, reached, ending = self._targets[0]
            due_s = self._at_s + max(0.0, target - self._served) / self.rate_bytes_per_s
            if due_s > now_s:
                break
            heapq.heappop(self._targets)
            self._served, self._at_s = max(self._served, target), due_s
            if ending is not None and ending.present:
                ending.present = False
                self._transferring -= 1
            self._reached.append((reached, due_s))
        if now_s > self._at_s:
            if self._transferring:
                self._served += (now_s - self._at_s) * self.rate_bytes_per_s
            self._at_s = now_s

    def join(self) -> None:
        """Counts one more transferring connection from now on."""
        self._advance(self._clock())
        self._transferring += 1
        self._arm()

    def leave(self) -> None:
        """Counts one less from now on."""
        self._advance(self._clock())
        self._transferring -= 1
        self._arm()

    def call_at(self, target: float, reached: Callable[[float], None], *, ending: "Transfer | None" = None) -> None:
        """Calls `reached` when the clock has reached `target`, with the time at which it was due; a transfer that ends
        there counts no longer from that very moment."""
        entry = (target, next(self._order), reached, ending)
        heapq.heappush(self._targets, entry)
        if self._targets[0] is entry or self._reached:
            self._arm()

    def _arm(self) -> None:
        """Sees to it that `_due` runs when the next target is due; at once when some were passed already."""
        if self._reached:
            due_s = 0.0
        elif self._targets:
            due_s = self._at_s + max(0.0, self._targets[0][0] - self._served) / self.rate_bytes_per_s
        else:
            due_s = math.inf
        if self._handle is not None:
            if abs(self._handle.when_s - due_s) < _SAME_TIME_S:
                return
            self._handle.cancel()
            self._handle = None
        if due_s < math.inf:
            self._handle = self._deadlines.call_at(due_s, self._due)

    def _due(self, when_s: float) -> None:
        self._handle = None
        self._advance(max(self._clock(), when_s))  # Deadlines may come a little early.
        # Called here alone: one may start what passes the next, without end.
        reached, self._reached = self._reached, []
        for callback, due_s in reached:
            callback(due_s)
        self._arm()


class Transfer:
    """The body of one request or answer on its way: `begin`, then `due` for each piece, then `end`, which leaving it as
    a context does."""

    __slots__ = (
        "_asked_s",
        "_callback",
        "_clock",
        "_health",
        "_late_bytes",
        "_left_bytes",
        "_piece_bytes",
        "_position",
        "due_s",
        "present",
    )

    def __init__(self, clock: ServiceClock, size_bytes: int | None, health: Health) -> None:
        self._clock = clock
        self._left_bytes = size_bytes
        self._health = health
        self.present = False
        self._position = 0.0
        self._late_bytes = 0.0
        self._piece_bytes, self._asked_s = 0, 0.0
        self._callback: Callable[[], None] | None = None
        self.due_s: float | None = None

    def begin(self) -> None:
        """Counts the transfer among those that share the link, if it is not yet."""
        if not self.present:
            self._clock.join()
            self.present = True
            self._position = self._clock.now()

    def end(self) -> None:
        """Counts it no longer, however far it came."""
        if self.present:
            self.present = False
            self._clock.leave()

    def __enter__(self) -> "Transfer":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    @property
    def piece_bytes(self) -> int:
        """How many bytes to send at once."""
        clock = self._clock
        wanted_bytes = clock.rate_bytes_per_s * max(_PIECE_S, clock.transferring / _PIECES_PER_S)
        return int(min(_PIECE_MOST_BYTES, max(_PIECE_LEAST_BYTES, wanted_bytes)))

    def call_when_due(self, size_bytes: int, callback: Callable[[], None]) -> None:
        """Calls `callback` when the last of the next `size_bytes` is due on the model's link; not before an earlier
        call was made."""
        clock = self._clock
        rate = clock.rate_bytes_per_s
        behind_bytes = clock.now() - rate * CATCH_UP_S - self._position
        if behind_bytes > 0:
            machine_bytes = min(behind_bytes, self._late_bytes)
            self._health.behind(machine_s=machine_bytes / rate, peer_s=(behind_bytes - machine_bytes) / rate)
            self._position += behind_bytes
        self._position += size_bytes
        last = False
        if self._left_bytes is not None:
            self._left_bytes -= size_bytes
            last = self._left_bytes <= 0
        self._piece_bytes, self._asked_s, self._callback = size_bytes, size_bytes / rate, callback
        clock.call_at(self._position, self._reached, ending=self if last else None)

    def _reached(self, due_s: float) -> None:
        """Notes how late a piece is, and has it sent."""
        late_s = self._clock.late_s(due_s)
        self.due_s = due_s
        self._late_bytes = late_s * self._clock.rate_bytes_per_s
        self._health.piece(self._piece_bytes, self._asked_s, late_s)
        if self._left_bytes is not None and self._left_bytes <= 0:
            self._health.behind(machine_s=late_s)
        callback, self._callback = self._callback, None
        if callback is not None:
            callback()

    async def due(self, size_bytes: int) -> None:
        """Returns when the last of the next `size_bytes` is due on the model's link."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.call_when_due(size_bytes, lambda: None if done.done() else done.set_result(None))
        await done


class Network:
    """A network model at work on one event loop.

    Args:
        model: what to obey.
        deadlines: who makes calls at points of time.
        round_trip_s: what a request and its answer take on this machine with the model off; a first byte is due that
            much sooner, so that the model's latency is what a client sees.
    """

    def __init__(self, model: NetworkModel, deadlines: Deadlines, *, round_trip_s: float = 0.0) -> None:
        self.model = model
        self.health = Health()
        self._deadlines = deadlines
        self._first_byte = FirstByte(model)
        self._round_trip_s = round_trip_s
        limited = model.connection_bytes_per_s is not None or model.total_bytes_per_s is not None
        self._download = self._clock() if limited and model.direction != "upload" else None
        self._upload = self._clock() if limited and model.direction != "download" else None
        self._rates = RequestRates(reads_per_s=model.reads_per_s, writes_per_s=model.writes_per_s)

    def _clock(self) -> ServiceClock:
        return ServiceClock(
            self._deadlines,
            each_bytes_per_s=self.model.connection_bytes_per_s,
            total_bytes_per_s=self.model.total_bytes_per_s,
        )

    def admits(self, bucket: str, key: str, *, writes: bool) -> bool:
        """Returns whether a request is within the rate of its prefix, and counts it if so."""
        return self._rates.admit(bucket, key, writes=writes)

    def arrived_s(self) -> float:
        """Returns when a request whose last byte was just read had arrived (time.monotonic)."""
        return self._deadlines.event_s()

    def call_at_first_byte(self, arrived_s: float, callback: Callable[[float], None]) -> None:
        """Calls `callback` when the first byte of the answer to a request that was whole at `arrived_s`
        (time.monotonic) is due."""
        latency_s = self._first_byte.draw_s()
        due_s = arrived_s + max(0.0, latency_s - self._round_trip_s)

        def due(when_s: float) -> None:
            if latency_s:
                self.health.first_byte(latency_s, time.monotonic() - due_s)
            callback(when_s)

        self._deadlines.call_at(due_s, due)

    async def first_byte(self, arrived_s: float) -> None:
        """Returns when the first byte of the answer to a request that was whole at `arrived_s` (time.monotonic) is
        due."""
        latency_s = self._first_byte.draw_s()
        if latency_s:
            due_s = arrived_s + max(0.0, latency_s - self._round_trip_s)
            await self._deadlines.wait_until(due_s)
            self.health.first_byte(latency_s, time.monotonic() - due_s)

    def download(self, size_bytes: int) -> Transfer | None:
        """Returns the transfer of an answer's body, or None where no bandwidth applies."""
        return None if self._download is None or not size_bytes else Transfer(self._download, size_bytes, self.health)

    def upload(self, size_bytes: int | None) -> Transfer | None:
        """Returns the transfer of a request's body of this size (None: not stated), or None where no bandwidth
        applies."""
        return None if self._upload is None or size_bytes == 0 else Transfer(self._upload, size_bytes, self.health)
