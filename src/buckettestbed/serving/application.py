"""The ASGI application: requests to a dialect, counted, logged, shaped by the network model, with faults injected."""

import asyncio
from collections.abc import Iterable, Mapping, MutableMapping
from itertools import count
from typing import Any

from buckettestbed.faults.plan import Fault, FaultPlan, FaultSet
from buckettestbed.model.buckets import Buckets
from buckettestbed.network.deadlines import Deadlines
from buckettestbed.network.model import NetworkModel
from buckettestbed.network.shaping import Network
from buckettestbed.serving.connection import Connection
from buckettestbed.serving.counters import Counters
from buckettestbed.serving.dialect import Dialect, Operation, PlainGet
from buckettestbed.serving.exchange import FAULT, Exchange
from buckettestbed.serving.log import LogEntry, RequestLog
from buckettestbed.serving.receiving import AsgiReceive
from buckettestbed.serving.sending import AsgiSend

__all__ = ["Application"]

Scope = MutableMapping[str, Any]


class Application:
    """The testbed as an ASGI 3 application (`http` and `lifespan` scopes). One event loop owns it.

    Args:
        buckets: what is served.
        dialects: who answers, by the port that a request came to; the first of them also where no port is known.
        network: the model to begin with.
        faults: what goes wrong from the beginning.
        log_requests: how many requests the log keeps; 0 for no log.
    """

    def __init__(
        self,
        buckets: Buckets,
        *,
        dialects: Mapping[int, Dialect],
        network: NetworkModel,
        faults: FaultSet | None = None,
        log_requests: int = 0,
    ) -> None:
        self.buckets = buckets
        self.counters = Counters()
        self.log = RequestLog(log_requests) if log_requests else None
        self._model = network
        self._deadlines: Deadlines | None = None
        self._network: Network | None = None
        self._round_trip_s = 0.0
        self._dialects = dict(dialects)
        self._default_dialect = next(iter(dialects.values()))
        self._faults: FaultPlan | None = None
        self.set_faults(faults or FaultSet())
        self._request_ids = count(1)
        self._connection_numbers = count(1)

    @property
    def network(self) -> Network | None:
        """The network model at work, or None when it is off."""
        return self._network

    @property
    def network_model(self) -> NetworkModel:
        """The network model's fields."""
        return self._model

    @property
    def faults(self) -> FaultPlan:
        """What goes wrong, with how often it did."""
        return self._faults or FaultPlan(FaultSet())

    def request_id(self) -> str:
        """Returns a request id that no other request has."""
        return f"{next(self._request_ids):016X}"

    def connection_number(self) -> int:
        """Returns a number that no other connection has."""
        return next(self._connection_numbers)

    def dialect(self, server: tuple[str, int | None] | None) -> Dialect:
        """Returns the dialect of the address that a connection was made to."""
        port = None if server is None else server[1]
        return self._default_dialect if port is None else self._dialects.get(port, self._default_dialect)

    def set_network(self, model: NetworkModel) -> None:
        """Shapes requests that begin from now on by another model. Call it on the loop that serves."""
        if self._deadlines is None:
            self._deadlines = Deadlines(asyncio.get_running_loop())
        self._model = model
        self._network = None if model.off else Network(model, self._deadlines, round_trip_s=self._round_trip_s)
        self.counters.network = None if self._network is None else self._network.health

    def set_round_trip(self, round_trip_s: float) -> None:
        """Lets the network model allow for what a request takes on this machine beyond its latency."""
        self._round_trip_s = round_trip_s
        self.set_network(self._model)

    def set_faults(self, faults: FaultSet) -> None:
        """Draws faults for requests that begin from now on by other rules, from the beginning of their draws."""
        self._faults = FaultPlan(faults) if faults.rules else None

    def close(self) -> None:
        """Frees the timer and ends use of the storage."""
        if self._deadlines is not None:
            self._deadlines.close()
            self._deadlines = None
        self.buckets.storage.close()

    def plain_get(
        self, dialect: Dialect, target: bytes, headers: list[tuple[bytes, bytes]], scope: Scope
    ) -> PlainGet | None:
        """Returns the answer to a request that a protocol may send by itself, or None where it must call the
        application, with this scope."""
        plain = dialect.plain_get(target, headers)
        if plain is None:
            return None
        if self._faults is not None:
            scope[FAULT] = fault = self.draw(dialect, plain.operation, "GET", continuing=False)
            if fault is not None:
                return None
        return plain if self.admitted(plain.operation, writes=False) else None

    def begin_plain_get(
        self, plain: PlainGet, dialect: Dialect, connection: Connection, headers: Iterable[tuple[bytes, bytes]]
    ) -> LogEntry | None:
        """Counts what `plain_get` returned as it is about to be sent; returns its entry of the log, if there is one."""
        self.counters.requests[plain.operation.name] += 1
        self.counters.request_began()
        if self.log is None:
            return None
        entry = LogEntry(dialect=dialect.name, method="GET", connection=connection.number, headers=headers)
        entry.describe(plain.operation)
        entry.status = int(plain.head[9:12])  # HTTP/1.1 206 Partial Content
        return entry

    def end_plain_get(self, entry: LogEntry | None, *, sent_bytes: int, whole: bool, lost: bool = False) -> None:
        """Counts what was sent of it; `lost` says that its client went away before it was whole."""
        self.counters.request_ended()
        self.counters.bytes_out += sent_bytes
        self.counters.disconnected += lost
        if entry is not None and self.log is not None:
            entry.bytes_out = sent_bytes
            entry.outcome = "whole" if whole else "gone" if lost else "cut"
            self.log.add(entry)

    def admitted(self, operation: Operation, *, writes: bool) -> bool:
        """Returns whether the network model's request rates let the request through, and counts it if so."""
        return self._network is None or self._network.admits(
            operation.bucket, operation.key or operation.prefix, writes=writes
        )

    def draw(self, dialect: Dialect, operation: Operation, method: str, *, continuing: bool) -> Fault | None:
        """Returns the fault to inject into a request, or None, and counts it."""
        if self._faults is None:
            return None
        fault = self._faults.draw(
            dialect=dialect.name,
            operation=operation.name,
            method=method,
            bucket=operation.bucket,
            name=operation.key or operation.prefix,
            continues=continuing,
        )
        if fault is not None:
            self.counters.faults[fault.kind] += 1
        return fault

    async def __call__(self, scope: Scope, receive: AsgiReceive, send: AsgiSend) -> None:
        """Serves one request, or the server's start and end."""
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "http":
            await Exchange(self, scope, receive, send).serve()

    async def _lifespan(self, receive: AsgiReceive, send: AsgiSend) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                self.set_network(self._model)
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                self.close()
                await send({"type": "lifespan.shutdown.complete"})
                return
