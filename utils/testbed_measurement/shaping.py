"""How exactly the testbed keeps its network model: asked and achieved, as bare sockets in another process see it."""

import math
import operator
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from buckettestbed.network.latency import FirstByte
from buckettestbed.network.model import NetworkModel
from buckettestbed.presets import load_network
from testbed_measurement.load import Load, Outcome
from testbed_measurement.session import (
    BUCKET,
    LARGE_KEY,
    SMALL_BYTES,
    SMALL_KEY,
    SMALL_OBJECTS,
    TINY_KEY,
    Measured,
    Session,
)
from testbed_measurement.tables import Table, thousands

_MIB = 1 << 20
_PACE_PER_S = 1000.0
"""Requests a second in all at which first bytes are measured: every connection is in use, no processor is full."""

_LEAST_SAMPLES = 40
_UPLOADED_BYTES = 512 << 20
"""Bodies that are on their way at the same time, at most: the server holds them in memory."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is measured: network presets, numbers of connections, and for about how long each."""

    presets: tuple[str, ...]
    connections: tuple[int, ...]
    seconds: float


def shaping_tables(plan: Plan, measured: Session, tls: Session) -> Iterator[Table]:
    """Measures table by table.

    Args:
        plan: what.
        measured: a testbed over plain HTTP.
        tls: another one over TLS.
    """
    yield _first_bytes(plan, measured)
    yield _other_ways(plan, measured, tls)
    yield _small_gets(plan, measured)
    yield _bandwidth(plan, measured, "GET")
    yield _bandwidth(plan, measured, "PUT")


def _points(plan: Plan) -> Iterator[tuple[str, NetworkModel, int]]:
    for preset in plan.presets:
        for connections in plan.connections:
            yield preset, load_network(preset), connections


def _first_bytes(plan: Plan, measured: Session) -> Table:
    table = Table(
        title="First byte",
        text=f"GETs of 1 KiB, at most {_PACE_PER_S:,.0f} a second in all. Asked are the median, mean and 99th"
        " percentile of the very latencies that the model's seed draws for these requests. `none` is the machine's own"
        " round trip.",
        columns=("preset", "connections", "requests", *_LATENCY_COLUMNS),
    )
    for connections in plan.connections:
        table.add("none", connections, *_latencies(plan, measured, "none", connections))
    for preset, _, connections in _points(plan):
        table.add(preset, connections, *_latencies(plan, measured, preset, connections))
    return table


def _other_ways(plan: Plan, measured: Session, tls: Session) -> Table:
    table = Table(
        title="First byte, other ways",
        text="HEAD goes through the ASGI application, a plain GET past it; TLS adds its own work on both sides.",
        columns=("preset", "way", "connections", "requests", *_LATENCY_COLUMNS),
    )
    ways: tuple[tuple[str, Session, str], ...] = (
        ("HEAD", measured, "HEAD"),
        ("GET, TLS", tls, "GET"),
        ("HEAD, TLS", tls, "HEAD"),
    )
    for preset in plan.presets[:2]:
        for way, session, method in ways:
            for connections in plan.connections[:: max(1, len(plan.connections) // 2)]:
                table.add(preset, way, connections, *_latencies(plan, session, preset, connections, method))
    return table


_LATENCY_COLUMNS = (
    "median, ms: asked",
    "achieved",
    "error",
    "mean, ms: asked",
    "achieved",
    "error",
    "p99, ms: asked",
    "achieved",
    "server's cores",
    "said so",
)


def _latencies(
    plan: Plan, measured: Session, preset: str, connections: int, method: str = "GET"
) -> Iterator[str | int]:
    model = load_network(preset)
    distribution = FirstByte(model)
    per_s = min(_PACE_PER_S, connections / distribution.mean_s if distribution.mean_s else _PACE_PER_S)
    requests = max(_LEAST_SAMPLES, connections, round(per_s * plan.seconds))
    measured.testbed.set_network(preset)  # Starts the model's draws again.
    result = measured.measure(
        Load(
            endpoint=measured.testbed.s3_endpoint,
            paths=(f"/{BUCKET}/{TINY_KEY}",),
            connections=connections,
            requests=requests,
            per_s=_PACE_PER_S,
            method=method,
        )
    )
    asked_s, achieved_s = sorted(distribution.draw_s() for _ in range(requests)), result.outcome.first_byte_s
    yield thousands(requests)
    for figure in (statistics.median, statistics.fmean):
        yield from _compared(1e3 * figure(asked_s), 1e3 * figure(achieved_s))
    yield f"{1e3 * _p99(asked_s):.2f}"
    yield f"{1e3 * _p99(achieved_s):.2f}"
    yield from _server(result)


def _p99(values_s: list[float]) -> float:
    return statistics.quantiles(values_s, n=100, method="inclusive")[98]


def _compared(asked: float, achieved: float, form: Callable[[float], str] = "{:.2f}".format) -> Iterator[str]:
    yield form(asked)
    yield form(achieved)
    yield f"{100 * (achieved / asked - 1):+.1f} %" if asked else ""


def _server(result: Measured) -> Iterator[str]:
    yield f"{result.server_cores:.2f}"
    yield "yes" if result.warnings else ""


def _small_gets(plan: Plan, measured: Session) -> Table:
    table = Table(
        title="GETs of 100 KiB",
        text="Each connection asks again as soon as it has its answer; what the client does between two requests is not"
        " in what is asked for, which is the throughput of a closed queue: requests wait for their first byte, then"
        " share the link.",
        columns=("preset", "connections", "objects/s: asked", "achieved", "error", "server's cores", "said so"),
    )
    for preset, model, connections in _points(plan):
        asked, cycle_s = _closed_per_s(model, connections, SMALL_BYTES), FirstByte(model).mean_s
        measured.testbed.set_network(preset)
        result = measured.measure(
            Load(
                endpoint=measured.testbed.s3_endpoint,
                paths=tuple(f"/{BUCKET}/{SMALL_KEY}/{number}" for number in range(SMALL_OBJECTS)),
                connections=connections,
                seconds=plan.seconds,
                spread_s=cycle_s,
            )
        )
        steady_s = min(plan.seconds / 2, 3 * cycle_s)
        achieved = result.outcome.answers_per_s(steady_s, plan.seconds)
        compared = _compared(asked, achieved, "{:,.0f}".format)
        table.add(preset, connections, *compared, *_server(result))
    return table


def _closed_per_s(model: NetworkModel, connections: int, size_bytes: int) -> float:
    """Returns how many objects a second the model gives to connections that never pause.

    It is the mean rate of a birth-death process whose state is the number of transfers. *Source*: a closed network of a
    delay and a processor-sharing station has the same throughput for every distribution with these means (Baskett,
    Chandy, Muntz and Palacios 1975).
    """
    each, total = _limits(model)
    delay_s = FirstByte(model).mean_s
    per_s = [min(transfers * each, total) / size_bytes for transfers in range(connections + 1)]
    logarithm, logarithms = 0.0, [0.0]
    for transfers in range(connections):
        logarithm += math.log((connections - transfers) / delay_s / per_s[transfers + 1])
        logarithms.append(logarithm)
    weights = [math.exp(value - max(logarithms)) for value in logarithms]
    return sum(map(operator.mul, weights, per_s)) / sum(weights)


def _bandwidth(plan: Plan, measured: Session, method: str) -> Table:
    uploads = method == "PUT"
    table = Table(
        title=f"Bandwidth of large {method}s",
        text="One request a connection, all at the same time, of about the size that the model carries in"
        f" {plan.seconds:g} s; "
        + (
            f"{_UPLOADED_BYTES // _MIB} MiB in all at most. The time without the model's mean first byte counts."
            if uploads
            else "the time from the first byte to the last counts."
        ),
        columns=("preset", "connections", "MiB", *_BANDWIDTH_COLUMNS),
    )
    for preset, model, connections in _points(plan):
        each, total = _limits(model)
        rate = min(each, total / connections)
        size_bytes = min(measured.large_bytes, int(rate * plan.seconds))
        if uploads:
            size_bytes = min(size_bytes, _UPLOADED_BYTES // connections)
        measured.testbed.set_network(preset)
        result = measured.measure(
            Load(
                endpoint=measured.testbed.s3_endpoint,
                paths=(f"/{BUCKET}/{'put' if uploads else LARGE_KEY}",),
                connections=connections,
                requests=connections,
                method=method,
                range_bytes=None if uploads else size_bytes,
                body_bytes=size_bytes if uploads else 0,
            )
        )
        achieved = size_bytes / _transfer_s(result.outcome, model, uploads=uploads, shared=each * connections > total)
        table.add(
            preset,
            connections,
            f"{size_bytes / _MIB:.1f}",
            *_compared(rate / _MIB, achieved / _MIB),
            *list(_compared(rate * connections / _MIB, achieved * connections / _MIB, "{:,.0f}".format))[:2],
            *_server(result),
        )
    return table


def _transfer_s(outcome: Outcome, model: NetworkModel, *, uploads: bool, shared: bool) -> float:
    """Returns the seconds that the transfers of a load took, their waits for a first byte apart.

    Where they share a link, those that began first had more of it at first: what counts then is the time from the
    first's beginning to the last's end.
    """
    latency_s = FirstByte(model).mean_s
    spans = [
        (begun_s, begun_s + total_s - latency_s) if uploads else (begun_s + first_s, begun_s + total_s)
        for begun_s, first_s, total_s in zip(outcome.begun_s, outcome.first_byte_s, outcome.total_s, strict=True)
    ]
    if shared:
        return max(stop_s for _, stop_s in spans) - min(start_s for start_s, _ in spans)
    return statistics.fmean(stop_s - start_s for start_s, stop_s in spans)


_BANDWIDTH_COLUMNS = (
    "MiB/s a connection: asked",
    "achieved",
    "error",
    "MiB/s in all: asked",
    "achieved",
    "server's cores",
    "said so",
)


def _limits(model: NetworkModel) -> tuple[float, float]:
    """Returns the bandwidths in bytes/s of a connection and in all."""
    return tuple(
        float("inf") if limit is None else limit for limit in (model.connection_bytes_per_s, model.total_bytes_per_s)
    )
