"""What a figure set is: a scenario's figures, what each is, and how they come from the raw records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from bucketbench.records import Figure, Operation, UsageSample

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
    """

    requests: int
    bytes_out: int
    faults: int | None = None
    warnings: int | None = None
    listings: int | None = None
    requests_s: float | None = None
    bytes_in: int | None = None


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


@dataclass(frozen=True, kw_only=True, slots=True)
class FigureSet:
    """The figures of a scenario's jobs. What each means is defined in docs/figures.md.

    Args:
        kinds: what every figure is, by name; ``errors`` is one of them, and the first that is a contest decides the
            order of the table.
        values: derives from a job's operations, usage samples and server counts a value for every name, or the reason
            for having none. It must be pure, and indifferent to the order of the first two.
    """

    kinds: Mapping[str, FigureKind]
    values: Callable[[Sequence[Operation], Sequence[UsageSample], ServerCounts | None], Mapping[str, float | str]]

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
