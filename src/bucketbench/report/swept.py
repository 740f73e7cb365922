"""What a sweep asked: the figures of each client at each value of the swept keys, and at which value each was best."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from bucketbench.records import State
from bucketbench.report.cells import NOT_AVAILABLE, number_text
from bucketbench.report.runs import Run
from bucketbench.report.sections import Section
from bucketbench.report.wording import plain_text
from bucketbench.scenarios.presentation import TableForm
from bucketbench.statistics import Better, FigureSet, IncomparableError, Status, Summary, ahead_of

__all__ = ["BestAt", "SweptPoint", "SweptTable", "bound_keys", "swept_points", "swept_tables"]

_ABSENT: Final = object()


@dataclass(frozen=True, kw_only=True, slots=True)
class SweptPoint:
    """One client at one set of values of what the run sweeps.

    Args:
        client: its own name, without the options in which its contestants differ.
        keys: parameters and options of clients (``client.…``) that have several values in the run, with these.
        summary: its repeats there.
    """

    client: str
    keys: Mapping[str, Any]
    summary: Summary


@dataclass(frozen=True, kw_only=True, slots=True)
class BestAt:
    """Where a client was best.

    Args:
        values: of the swept keys, as one text; several where it is undecided between them, the best median first; none
            where the client has no value of the figure.
        why: why it is not decided; empty where it is.
    """

    values: tuple[str, ...]
    why: str = ""

    @property
    def text(self) -> str:
        """In the words of a cell."""
        return " or ".join(self.values) or NOT_AVAILABLE


@dataclass(frozen=True, kw_only=True, slots=True)
class SweptTable:
    """One figure over the swept keys.

    Args:
        heading: of the figure, as the table of a section has it.
        keys: the swept keys, each with a column of its own.
        clients: the clients, each with a column of its own, the one with the best value first.
        rows: the values of the keys, then the cell of each client; empty where the client was not run there.
        best: where each client was best, in their order.
    """

    heading: str
    keys: tuple[str, ...]
    clients: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    best: tuple[BestAt, ...]

    def notes(self) -> list[str]:
        """Which clients' best value is undecided, and why."""
        return [
            f"{client}: its best {self.heading} is undecided between {' and '.join(best.values)}: {best.why}"
            for client, best in zip(self.clients, self.best, strict=True)
            if best.why
        ]


def swept_tables(run: Run, sections: Sequence[Section], form: TableForm, figures: FigureSet) -> list[SweptTable]:
    """A table for each figure by which clients are compared; none where the run sweeps nothing but clients.

    Args:
        run: of one scenario.
        sections: its.
        form: of the scenario.
        figures: likewise.
    """
    points = swept_points(run, sections)
    keys = _columns(points)
    if not keys:
        return []
    tables = [_table(name, points, keys, form, figures) for name in figures.contests]
    return [table for table in tables if table is not None]


def swept_points(run: Run, sections: Sequence[Section]) -> list[SweptPoint]:
    """Every client of every section, with the keys in which it differs from others of the run."""
    own = _options(run)
    return [
        SweptPoint(
            client=own[entry.summary.client][0],
            keys={**section.varying, **own[entry.summary.client][1]},
            summary=entry.summary,
        )
        for section in sections
        for entry in section.entries
    ]


def bound_keys(key: str, keys: Sequence[str], points: Sequence[SweptPoint]) -> list[str]:
    """The other keys that have one value for each value of this one."""
    bound = []
    for other in keys:
        pairs = {(repr(one.keys[key]), repr(one.keys[other])) for one in points if {key, other} <= one.keys.keys()}
        if other != key and pairs and len(pairs) == len({a for a, _ in pairs}) == len({b for _, b in pairs}):
            bound.append(other)
    return bound


def _columns(points: Sequence[SweptPoint]) -> list[str]:
    """The keys with several values, of those that change together the first."""
    every = list(dict.fromkeys(key for point in points for key in point.keys))
    keys: list[str] = []
    for key in every:
        values = {repr(point.keys[key]) for point in points if key in point.keys}
        if len(values) > 1 and not any(key in bound_keys(earlier, every, points) for earlier in keys):
            keys.append(key)
    return keys


def _table(
    figure: str, points: Sequence[SweptPoint], keys: Sequence[str], form: TableForm, figures: FigureSet
) -> SweptTable | None:
    better = figures.kinds[figure].better
    by_client: dict[str, list[SweptPoint]] = {}
    for point in points:
        by_client.setdefault(point.client, []).append(point)
    ranked = {client: _ranked(found, figure, better) for client, found in by_client.items()}
    if not any(ranked.values()) or len({_values(point, keys) for point in points if _is_told(point, figure)}) < 2:
        return None  # of one place alone, as that of saves where other jobs only load
    column = next((column for column in form.columns if column.figure == figure), None)
    scale = 1.0 if column is None else column.scale
    clients = sorted(by_client, key=lambda client: _place(ranked[client], figure, better))
    cells: dict[tuple[str, ...], dict[str, str]] = {}
    for point in sorted(points, key=lambda point: _order(point, keys)):
        cells.setdefault(_values(point, keys), {})[point.client] = _cell(point.summary, figure, scale)
    return SweptTable(
        heading=figure if column is None else column.heading,
        keys=tuple(keys),
        clients=tuple(clients),
        rows=tuple((*values, *(found.get(client, "") for client in clients)) for values, found in cells.items()),
        best=tuple(_best(ranked[client], keys, figure, better) for client in clients),
    )


def _is_told(point: SweptPoint, figure: str) -> bool:
    """Whether the figure is one of what was measured there, or would have been."""
    return point.summary.status is Status.FAILED or point.summary.figures[figure].median is not None


def _ranked(points: Sequence[SweptPoint], figure: str, better: Better) -> list[SweptPoint]:
    """Those in which every repeat succeeded, none is invalid and the figure is known, the best median first."""
    known = [
        point
        for point in points
        if point.summary.status is Status.OK
        and point.summary.state is not State.INVALID
        and point.summary.figures[figure].median is not None
    ]
    return sorted(known, key=lambda point: better.place(point.summary.figures[figure].median))


def _best(ranked: Sequence[SweptPoint], keys: Sequence[str], figure: str, better: Better) -> BestAt:
    if not ranked:
        return BestAt(values=())
    first, *others = ranked
    left, reasons = [first], []
    for other in others:
        try:
            same = replace(other.summary, parameters=first.summary.parameters)
            found = ahead_of(first.summary, same, figure=figure, better=better)
        except IncomparableError as error:
            left.append(other)
            reasons.append(str(error))
            continue
        if not found.above:
            left.append(other)
            reasons.append(found.obstacle or "the interval of their ratio does not lie above 1")
    return BestAt(values=tuple(_told(point, keys) for point in left), why="; ".join(dict.fromkeys(reasons)))


def _told(point: SweptPoint, keys: Sequence[str]) -> str:
    return ", ".join(value for value in _values(point, keys) if value)


def _values(point: SweptPoint, keys: Sequence[str]) -> tuple[str, ...]:
    return tuple(plain_text(point.keys[key]) if key in point.keys else "" for key in keys)


def _order(point: SweptPoint, keys: Sequence[str]) -> list[tuple[int, float, str]]:
    """Numbers in their order, then words as they are spelled."""
    order = []
    for value in (point.keys.get(key) for key in keys):
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        order.append((0 if is_number else 1, float(value or 0) if is_number else 0.0, plain_text(value)))
    return order


def _place(ranked: Sequence[SweptPoint], figure: str, better: Better) -> tuple[bool, float]:
    return better.place(ranked[0].summary.figures[figure].median if ranked else None)


def _cell(summary: Summary, figure: str, scale: float) -> str:
    if summary.status is Status.FAILED:
        return "failed"
    text = number_text(summary.figures[figure].median, scale=scale)
    if summary.state is State.INVALID:
        return f"{text} (invalid)"
    return text if summary.status is Status.OK else f"{text} ({len(summary.failures)}/{summary.repeats} failed)"


def _options(run: Run) -> dict[str, tuple[str, dict[str, Any]]]:
    """By the name in the table, a client's own name, and those of its options that differ between its contestants."""
    every: dict[str, list[dict[str, Any]]] = {}
    for result in run.results:
        every.setdefault(result.client, []).append(result.client_options)
    differing = {
        client: [
            name
            for name in dict.fromkeys(name for options in found for name in options)
            if len({json.dumps(options[name], default=str) if name in options else _ABSENT for options in found}) > 1
        ]
        for client, found in every.items()
    }
    return {
        job.client: (
            result.client,
            {
                f"client.{name}": result.client_options[name]
                for name in differing[result.client]
                if name in result.client_options
            },
        )
        for job, result in zip(run.jobs, run.results, strict=True)
    }
