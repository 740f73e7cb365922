"""Compares what one job's results state with what the testbed's log has of the same stretches of time.

The log is a second witness: the harness reads counters and clocks of its own, and no entry of the log. Five quantities
are compared, each where the scenario states it:

- *content bytes*: what the results count as delivered, or as saved. Of the log: the distinct bytes of objects that were
  handed to the client (what a client reads twice counts once), or the bytes of bodies that wrote objects.
- *wire bytes*: the bytes of bodies that the results say the server sent, or received of a save. Of the log: their sum.
- *requests*: those that the results say the server counted. Of the log: the entries.
- *by operation*: the same, by what each asked for. Of the log: those of them that it has of the same operation.
- *seconds*: the durations that the results state. Of the log: from the arrival of the first request to the end of the
  last answer. A client's own work before and after is in the first and not in the second, so that the network has to
  be slow enough for it to disappear.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bucketbench.records import Operation, OperationKind, Phase
from buckettestbed.serving.log import LoggedRequest

__all__ = ["TOLERANCES", "Comparison", "Stretch", "compared", "distinct_bytes", "measured_stretches"]

TOLERANCES: Final = {
    "content bytes": 0.001,
    "wire bytes": 0.001,
    "requests": 0.001,
    "by operation": 0.001,
    "seconds": 0.02,
}
"""The greatest difference, as a share of the log's, that counts as agreement."""

_MIB: Final = 1 << 20
_LISTS: Final = "list"
_WRITES: Final = ("PUT", "POST")


@dataclass(frozen=True, kw_only=True, slots=True)
class Stretch:
    """A measured stretch of time, by the clock of the log: one epoch, listing, save or load."""

    kind: OperationKind
    started_s: float
    ended_s: float

    def has(self, request: LoggedRequest) -> bool:
        """Whether a request arrived within it."""
        return self.started_s <= request.arrived_s <= self.ended_s


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """One quantity of one job, stated and logged."""

    quantity: str
    stated: float
    logged: float

    @property
    def difference(self) -> float:
        """By what share of the log's the results differ from it; infinite where the log has nothing."""
        if self.stated == self.logged:
            return 0.0
        return abs(self.stated - self.logged) / self.logged if self.logged else float("inf")

    @property
    def agrees(self) -> bool:
        """Whether the difference is one that counts as agreement."""
        return self.difference <= TOLERANCES[self.quantity]


def measured_stretches(operations: Iterable[Operation], *, clock_offset_s: float) -> list[Stretch]:
    """What a job measured, as time goes: with several ranks from the first one's start to the last one's end.

    Args:
        operations: its records.
        clock_offset_s: what the records' clock lacks to the log's.
    """
    kinds = (OperationKind.EPOCH, OperationKind.SAVE, OperationKind.LOAD)
    found: dict[tuple[OperationKind, int], list[Operation]] = defaultdict(list)
    for one in operations:
        if one.phase is Phase.MEASURE and one.kind in kinds:
            found[one.kind, one.epoch].append(one)
    stretches = [
        Stretch(
            kind=kind,
            started_s=min(one.started_s for one in of_ranks) + clock_offset_s,
            ended_s=max(one.ended_s for one in of_ranks) + clock_offset_s,
        )
        for (kind, _), of_ranks in found.items()
    ]
    return sorted(stretches, key=lambda stretch: stretch.started_s)


def distinct_bytes(requests: Iterable[LoggedRequest], sizes: Mapping[str, int]) -> int:
    """How many bytes of objects were sent at least once, by requests that were answered with bytes of objects.

    Args:
        requests: the log's.
        sizes: of objects, by key; needed where a request asks for the last bytes of one.
    """
    sent: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for one in requests:
        if one.method != "GET" or one.status not in (200, 206) or not one.key or one.operation.startswith(_LISTS):
            continue
        start = one.range_start if one.status == 206 and one.range_start is not None else 0
        if start < 0:
            start = max(sizes[one.key] + start, 0)
        sent[one.key].append((start, start + one.bytes_out))
    return sum(_covered(ranges) for ranges in sent.values())


def _covered(ranges: Iterable[tuple[int, int]]) -> int:
    total, reached = 0, 0
    for start, stop in sorted(ranges):
        total += max(stop - max(start, reached), 0)
        reached = max(reached, stop)
    return total


def compared(
    result: Mapping[str, Any], operations: Sequence[Operation], log: Sequence[LoggedRequest], *, clock_offset_s: float
) -> list[Comparison]:
    """Every quantity that a job's results state.

    Args:
        result: its ``job_results.json``.
        operations: its records.
        log: the testbed's entries, of any time.
        clock_offset_s: what the records' clock lacks to the log's.
    """
    stretches = measured_stretches(operations, clock_offset_s=clock_offset_s)
    parts = [(stretch, [one for one in log if stretch.has(one)]) for stretch in stretches]
    figures = {name: figure["value"] for name, figure in result["figures"].items()}
    measured = [one for one in operations if one.phase is Phase.MEASURE]
    if stretches and stretches[0].kind is OperationKind.EPOCH:
        found = _of_reading(figures, parts)
    else:
        found = _of_checkpoints(measured, parts)
    if any(within for _, within in parts):
        found.append(_by_operation(result["traffic"], [one for _, within in parts for one in within]))
        found.append(
            Comparison(
                quantity="seconds",
                stated=figures["wall_s"],
                logged=sum(_span_s(within) for _, within in parts if within),
            )
        )
    return found


_Parts = Sequence[tuple[Stretch, Sequence[LoggedRequest]]]


def _of_reading(figures: Mapping[str, float | None], parts: _Parts) -> list[Comparison]:
    """Of epochs and listings. The server's counters are read before the first and after the last of them."""
    all_requests = [one for _, within in parts for one in within]
    found = [
        Comparison(
            quantity="wire bytes",
            stated=(figures["server_bytes_out_mib"] or 0.0) * _MIB,
            logged=sum(one.bytes_out for one in all_requests),
        ),
        Comparison(quantity="requests", stated=figures["server_requests"] or 0.0, logged=len(all_requests)),
    ]
    content_mib = figures.get("content_mib")
    if content_mib is not None and all_requests:
        logged = sum(distinct_bytes(within, {}) for _, within in parts)
        found.insert(0, Comparison(quantity="content bytes", stated=content_mib * _MIB, logged=logged))
    return found


def _of_checkpoints(measured: Sequence[Operation], parts: _Parts) -> list[Comparison]:
    """Of saves and loads, whose records have the counters' growth over each."""
    done = [one for one in measured if one.kind in (OperationKind.SAVE, OperationKind.LOAD)]
    content_bytes = wire_bytes = requests = 0
    for stretch, within in parts:
        requests += len(within)
        if stretch.kind is OperationKind.SAVE:
            wire_bytes += sum(one.bytes_in for one in within)
            content_bytes += sum(one.bytes_in for one in within if one.method in _WRITES and _is_ok(one))
        else:
            wire_bytes += sum(one.bytes_out for one in within)
            content_bytes += distinct_bytes(within, {})
    found = [
        Comparison(quantity="wire bytes", stated=sum(one.wire_bytes or 0 for one in done), logged=wire_bytes),
        Comparison(quantity="requests", stated=sum(one.requests or 0 for one in done), logged=requests),
    ]
    if requests:
        stated = sum(one.content_bytes for one in done)
        found.insert(0, Comparison(quantity="content bytes", stated=stated, logged=content_bytes))
    return found


def _by_operation(traffic: Mapping[str, Any], logged: Iterable[LoggedRequest]) -> Comparison:
    stated: Counter[str] = Counter()
    for work in traffic.values():
        stated.update(work["requests"])
    alike = stated & Counter(one.operation for one in logged)
    return Comparison(quantity="by operation", stated=stated.total(), logged=alike.total())


def _is_ok(request: LoggedRequest) -> bool:
    return request.status is not None and (200 <= request.status < 300 or request.status == 308)


def _span_s(requests: Sequence[LoggedRequest]) -> float:
    return max(one.arrived_s + one.end_s for one in requests) - min(one.arrived_s for one in requests)
