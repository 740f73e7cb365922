"""The outcomes of a simulation as Markdown and as plain values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any, Final

from bucketbench.scale.composition import Composed
from bucketbench.scale.simulation import Outcome

__all__ = ["ScaleTable", "by_operation", "json_outcomes", "memory_table", "render_markdown", "rounded", "traffic_table"]

_MIB: Final = 1 << 20
_GIB: Final = 1 << 30

_Column = tuple[str, Callable[[Outcome], str]]


@dataclass(frozen=True, kw_only=True, slots=True)
class ScaleTable:
    """A table, cell by cell.

    Args:
        columns: their heads, the first is ``ranks``.
        rows: of cells.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def markdown(self) -> str:
        """The table as Markdown."""
        marks = ["---" if column == _CAUSE else "--:" for column in self.columns]
        return "\n".join(map(_line, (self.columns, marks, *self.rows)))


_CAUSE: Final = "waits for"


def traffic_table(outcomes: Sequence[Outcome], currency: str) -> ScaleTable:
    """What is asked for, how long that takes and what it costs, of one operation; a row for each number of ranks."""
    return _table(
        outcomes,
        ("ranks", lambda one: f"{one.ranks:,}"),
        ("requests", lambda one: rounded(one.requests)),
        ("read GiB", lambda one: rounded(one.operation.usage.received_bytes / _GIB)),
        ("written GiB", lambda one: rounded(one.operation.usage.sent_bytes / _GIB)),
        ("asked/s", lambda one: f"{rounded(one.demand.asked_per_s)} {one.demand.kind}"),
        ("of the limit", lambda one: _share(one.demand.share)),
        ("s", lambda one: rounded(one.seconds)),
        (_CAUSE, lambda one: one.cause),
        (currency, lambda one: rounded(one.cost)),
        (f"{currency} a month", lambda one: rounded(one.month)),
    )


def memory_table(outcomes: Sequence[Outcome]) -> ScaleTable:
    """What there is of what, and the memory that it takes; a row for each number of ranks."""

    def count(name: str) -> _Column:
        return name, lambda one: rounded(one.operation.counts[name])

    def mebibytes(name: str, bytes_of: Callable[[Outcome], float]) -> _Column:
        return f"{name} MiB", lambda one: rounded(bytes_of(one) / _MIB)

    first = outcomes[0].operation
    return _table(
        outcomes,
        ("ranks", lambda one: f"{one.ranks:,}"),
        *map(count, first.counts),
        *(mebibytes(name, partial(_size, name)) for name in first.sizes),
        *(mebibytes(name, partial(_memory, name)) for name in first.memory),
    )


def _size(name: str, one: Outcome) -> float:
    return one.operation.sizes[name]


def _memory(name: str, one: Outcome) -> float:
    return one.operation.memory[name]


def _table(outcomes: Sequence[Outcome], *columns: _Column) -> ScaleTable:
    """A table of the columns that are not 0 in every row."""
    kept = [(name, text) for name, text in columns if any(text(outcome) != "0" for outcome in outcomes)]
    return ScaleTable(
        columns=tuple(name for name, _ in kept),
        rows=tuple(tuple(text(outcome) for _, text in kept) for outcome in outcomes),
    )


def by_operation(outcomes: Iterable[Outcome]) -> dict[str, list[Outcome]]:
    """The outcomes of each operation, by its name."""
    return {name: list(rows) for name, rows in groupby(outcomes, key=lambda outcome: outcome.operation.name)}


def render_markdown(of: Composed, outcomes: Sequence[Outcome]) -> str:
    """What is simulated, and a table for each operation."""
    scale, limits, prices, network = of.scale, of.limits, of.prices, of.settings.network_model
    spread = f"{scale.prefixes} prefix{'es' * (scale.prefixes > 1)}" if limits.per_prefix else "a bucket"
    connection = network.connection_bytes_per_s
    heading = (
        f"{of.settings.scenario} with {of.settings.client.name}: {limits.name} ({limits.as_of}) allows "
        f"{' and '.join(f'{rounded(rate)} {kind}' for kind, rate in limits.per_s.items())} a second on {spread}; "
        f"{network.first_byte_s * 1000:g} ms to the first byte"
        + ("" if connection is None else f", {rounded(connection / _MIB)} MiB/s a connection")
        + f", {scale.host_bytes_per_s * 8 / 1e9:g} Gbit/s for the {scale.ranks_per_host} ranks of a host; "
        f"prices: {prices.name} of {prices.as_of}."
    )
    parts = [heading]
    for name, rows in by_operation(outcomes).items():
        parts += [f"### {name}", traffic_table(rows, prices.currency).markdown(), memory_table(rows).markdown()]
    return "\n\n".join(parts) + "\n"


def json_outcomes(outcomes: Iterable[Outcome]) -> list[dict[str, Any]]:
    """Every figure of every outcome, unrounded, as plain JSON values."""
    return [
        {
            "operation": one.operation.name,
            "ranks": one.ranks,
            "requests": dict(one.operation.usage.requests),
            "received_bytes": one.operation.usage.received_bytes,
            "sent_bytes": one.operation.usage.sent_bytes,
            "asked_per_s": one.demand.asked_per_s,
            "asked_kind": str(one.demand.kind),
            "allowed_per_s": one.demand.allowed_per_s,
            "least_s": one.seconds,
            "cause": one.cause,
            "cost": one.cost,
            "stored_bytes": one.operation.stored_bytes,
            "month_of_storage": one.month,
            "memory_bytes": dict(one.operation.memory),
            "counts": dict(one.operation.counts),
            "sizes_bytes": dict(one.operation.sizes),
            "steps": [
                {"name": step.name, "processes": step.processes, "requests": dict(step.requests)}
                for step in one.operation.steps
            ],
        }
        for one in outcomes
    ]


def _share(share: float) -> str:
    return f"{share:.2g}" if share < 1 else f"**{rounded(share)}**"


def rounded(value: float) -> str:
    """Three digits that count, however small the number is; four of a number of thousands."""
    if value == 0:
        return "0"
    if value >= 9_999.5:
        digits = len(f"{value:.0f}") - 3
        return f"{round(value, -digits):,.0f}"
    if value >= 999.5:
        return f"{value:,.0f}"
    if value >= 1:
        return f"{value:.3g}"
    return f"{value:.{2 - math.floor(math.log10(value))}f}".rstrip("0").rstrip(".")


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
