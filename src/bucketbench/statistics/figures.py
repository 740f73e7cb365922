"""What a figure set is: a scenario's figures, what each is, and how they come from the raw records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, Self

from bucketbench.records import Figure, Operation, UsageSample
from bucketbench.statistics.traffic import NO_COUNTS, Traffic

__all__ = ["GIB", "MIB", "Better", "FigureKind", "FigureSet", "ServerCounts"]

MIB = 1024 * 1024
GIB = 1024 * MIB


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerCounts:
    """What the server saw while it was measured: the difference of its counters at their edges.

    Args:
        requests: requests of every kind, failed ones included.
        bytes_out: bytes of response bodies.
        faults: requests that a fault struck, by the configuration's own rules; None in records of a version that did
            not count them.
        warnings: how often it said that the host does not keep the network model; None likewise.
        listings: requests that listed objects, each answered with a page; None likewise.
        requests_s: seconds that requests took, from their headers to the end of their answers, all together; None
            likewise.
        bytes_in: bytes of request bodies; None likewise.
        requests_by_name: how many requests of each operation, by the server's names of them; None likewise.
        asked_s: what the network model had all waits and transfers take together; None likewise.
        lost_s: what they took beyond that while the host did not keep the model; None likewise.
        processor_s: processor seconds of the server itself; None likewise.
    """

    requests: int
    bytes_out: int
    faults: int | None = None
    warnings: int | None = None
    listings: int | None = None
    requests_s: float | None = None
    bytes_in: int | None = None
    requests_by_name: Mapping[str, int] | None = None
    asked_s: float | None = None
    lost_s: float | None = None
    processor_s: float | None = None

    def plus(self, other: Self) -> Self:
        """What was counted in two stretches of time, both by this version."""
        return self._joined(other, 1)

    def since(self, earlier: Self) -> Self:
        """What was counted since, where both are the counts from the server's start on."""
        return self._joined(earlier, -1)

    def _joined(self, other: Self, sign: int) -> Self:
        def joined(one: Any, another: Any) -> Any:
            if isinstance(one, Mapping):
                counts = {name: one.get(name, 0) + sign * another.get(name, 0) for name in {**one, **another}}
                return {name: count for name, count in counts.items() if count}
            return None if one is None or another is None else one + sign * another

        return type(self)(
            **{field.name: joined(getattr(self, field.name), getattr(other, field.name)) for field in fields(self)}
        )


class Better(StrEnum):
    """Which values of a figure are the better ones."""

    HIGHER = "higher"
    LOWER = "lower"
    NEITHER = "neither"  # it describes, and no value is better than another

    def place(self, value: float | None) -> tuple[bool, float]:
        """What sorts values so that the best comes first, and none last; the highest where neither is better."""
        return value is None, (value or 0.0) * (1 if self is Better.LOWER else -1)


@dataclass(frozen=True, slots=True)
class FigureKind:
    """What a figure is.

    Args:
        unit: its unit.
        better: which values are the better ones.
        contest: what clients are compared in where they are compared by this figure, as a verdict calls it: A had 2
            times the *throughput* of B; None where they are not.
    """

    unit: str
    better: Better = Better.NEITHER
    contest: str | None = None


def _of_whole_job(operations: Sequence[Operation], server: ServerCounts | None) -> Mapping[str, Traffic] | str:
    """All that a job asked for, of a scenario that does not say what its work is."""
    del operations
    if server is None or server.requests_by_name is None:
        return NO_COUNTS
    return {
        "job": Traffic(
            times=1,
            requests=server.requests_by_name,
            received_bytes=server.bytes_out,
            sent_bytes=server.bytes_in or 0,
        )
    }


@dataclass(frozen=True, kw_only=True, slots=True)
class FigureSet:
    """The figures of a scenario's jobs. What each means is defined in docs/figures.md.

    Args:
        kinds: what every figure is, by name; ``errors`` is one of them, and the first that is a contest decides the
            order of the table.
        values: derives from a job's operations, usage samples and server counts a value for every name, or the reason
            for having none. It must be pure, and indifferent to the order of the first two.
        work: the kinds of work that what a job asks of the service is told for, such as ``epoch``.
        traffic: what each kind of work that the job did asked of the service, or why that is not known; as pure.
    """

    kinds: Mapping[str, FigureKind]
    values: Callable[[Sequence[Operation], Sequence[UsageSample], ServerCounts | None], Mapping[str, float | str]]
    work: tuple[str, ...] = ("job",)
    traffic: Callable[[Sequence[Operation], ServerCounts | None], Mapping[str, Traffic] | str] = _of_whole_job

    @property
    def units(self) -> dict[str, str]:
        """The unit of every figure."""
        return {name: kind.unit for name, kind in self.kinds.items()}

    @property
    def contests(self) -> list[str]:
        """The names of the figures by which clients are compared, at least one."""
        return [name for name, kind in self.kinds.items() if kind.contest is not None]

    def of_job(
        self, operations: Sequence[Operation], usage: Sequence[UsageSample], *, server: ServerCounts | None = None
    ) -> dict[str, Figure]:
        """Every figure of one job, in any order of the records.

        Args:
            operations: the job's records, of warm-up and measurement.
            usage: the job's usage samples, with one at each edge of each measured stretch of time.
            server: the server's counts, None where they are not known.

        Returns:
            A figure for every name, each with a value or with the reason for having none; never zero for what was not
            measured.
        """
        values = self.values(operations, usage, server)
        return {name: _figure(unit, values[name]) for name, unit in self.units.items()}

    def unmeasured(self, reason: str) -> dict[str, Figure]:
        """Every figure without a value, for a job that left no records: one that crashed, was killed or never started.

        Args:
            reason: why nothing could be measured.
        """
        return {name: Figure(unit=unit, reason=reason) for name, unit in self.units.items()}


def _figure(unit: str, value: float | str) -> Figure:
    return Figure(unit=unit, reason=value) if isinstance(value, str) else Figure(unit=unit, value=float(value))
