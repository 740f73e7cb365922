"""What a sweep asked: the figures of each client at each value of the swept keys, and at which value each was best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bucketbench.records import State
from bucketbench.report.cells import NOT_AVAILABLE, mark_text, number_text
from bucketbench.report.runs import Run
from bucketbench.report.sections import Section
from bucketbench.report.values import UNSET, identity, texts_by_key
from bucketbench.report.wording import broken_rules, reasons_text
from bucketbench.scenarios.presentation import TableForm
from bucketbench.statistics import Better, FigureSet, IncomparableError, Status, Summary, ahead_of

__all__ = ["BestAt", "SweptCell", "SweptPoint", "SweptRow", "SweptTable", "bound_keys", "swept_points", "swept_tables"]


@dataclass(frozen=True, kw_only=True, slots=True)
class SweptPoint:
    """One client at one set of values of what the run sweeps.

    Args:
        client: its own name, without the options in which its contestants differ.
        keys: parameters and options of clients (``client.…``) that have several values in the run, with these.
        told: the values as text, each key's told apart.
        summary: its repeats there.
    """

    client: str
    keys: Mapping[str, Any]
    told: Mapping[str, str]
    summary: Summary


@dataclass(frozen=True, kw_only=True, slots=True)
class SweptCell:
    """What a client has at some values of the swept keys.

    Args:
        figure: its median as text; empty where the client was not run there.
        mark: what must be known of it, such as ``2/6 doubtful``; empty where that is nothing.
        reason: why.
    """

    figure: str = ""
    mark: str = ""
    reason: str = ""

    @property
    def text(self) -> str:
        """Both in one."""
        return f"{self.figure} ({self.mark})" if self.mark else self.figure


@dataclass(frozen=True, kw_only=True, slots=True)
class SweptRow:
    """The cells of the clients at one set of values, in the order of the table's keys and clients."""

    values: tuple[str, ...]
    cells: tuple[SweptCell, ...]

    @property
    def texts(self) -> tuple[str, ...]:
        """All that stands in it."""
        return (*self.values, *(cell.text for cell in self.cells))


@dataclass(frozen=True, kw_only=True, slots=True)
class BestAt:
    """Where a client was best.

    Args:
        values: of the swept keys, as one text; several where it is undecided between them, the best median first; none
            where the client has no value of the figure that counts.
        marks: for each of them what must be known of the figures there; empty where that is nothing.
        why: why it is not decided, or why there is none; empty where neither is so.
    """

    values: tuple[str, ...]
    marks: tuple[str, ...] = ()
    why: str = ""

    @property
    def text(self) -> str:
        """In the words of a cell."""
        told = [f"{value} ({mark})" if mark else value for value, mark in zip(self.values, self.marks, strict=True)]
        return " or ".join(told) or NOT_AVAILABLE


@dataclass(frozen=True, kw_only=True, slots=True)
class SweptTable:
    """One figure over the swept keys.

    Args:
        heading: of the figure, as the table of a section has it.
        keys: the swept keys, each with a column of its own.
        clients: the clients, each with a column of its own, the one with the best value first.
        rows: one a set of values.
        best: where each client was best, in their order.
        marks: the rules of a valid measurement that were broken, by which client at which values, with the reasons.
    """

    heading: str
    keys: tuple[str, ...]
    clients: tuple[str, ...]
    rows: tuple[SweptRow, ...]
    best: tuple[BestAt, ...]
    marks: tuple[str, ...] = ()

    def notes(self) -> list[str]:
        """Which clients' best value is undecided, doubtful or not there, and why; and what every mark means."""
        told = [_told_of(client, self.heading, best) for client, best in zip(self.clients, self.best, strict=True)]
        return [*(line for line in told if line), *self.marks]


def _told_of(client: str, heading: str, best: BestAt) -> str:
    """What there is to say of where a client was best; empty where the table says it all."""
    if not best.values:
        return f"{client}: no best {heading}: {best.why}"
    doubtful = [value for value, mark in zip(best.values, best.marks, strict=True) if mark]
    if not best.why:
        return f"{client}: {heading} is best at {best.values[0]}, where its figures are doubtful" if doubtful else ""
    told = f"{client}: its best {heading} is undecided between {' and '.join(best.values)}: {best.why}"
    return f"{told}; its figures at {' and '.join(doubtful)} are doubtful" if doubtful else told


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
    found = [(section, entry.summary) for section in sections for entry in section.entries]
    keys = [{**section.varying, **own[summary.client][1]} for section, summary in found]
    return [
        SweptPoint(client=own[summary.client][0], keys=values, told=told, summary=summary)
        for (_, summary), values, told in zip(found, keys, texts_by_key(keys), strict=True)
    ]


def bound_keys(key: str, keys: Sequence[str], points: Sequence[SweptPoint]) -> list[str]:
    """The other keys that have one value for each value of this one."""
    bound = []
    for other in keys:
        pairs = {(one.told[key], one.told[other]) for one in points if {key, other} <= one.keys.keys()}
        if other != key and pairs and len(pairs) == len({a for a, _ in pairs}) == len({b for _, b in pairs}):
            bound.append(other)
    return bound


def _columns(points: Sequence[SweptPoint]) -> list[str]:
    """The keys with several values, of those that change together the first."""
    every = list(dict.fromkeys(key for point in points for key in point.keys))
    keys: list[str] = []
    for key in every:
        values = {point.told[key] for point in points if key in point.keys}
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
    measured = [point for point in points if _is_told(point, figure)]
    if all(point.summary.figures[figure].median is None for point in measured) or (
        len({_values(point, keys) for point in measured}) < 2
    ):
        return None  # of one place alone, as that of saves where other jobs only load
    column = next((column for column in form.columns if column.figure == figure), None)
    scale = 1.0 if column is None else column.scale
    clients = sorted(by_client, key=lambda client: _place(ranked[client], figure, better))
    cells: dict[tuple[str, ...], dict[str, SweptCell]] = {}
    for point in sorted(points, key=lambda point: _order(point, keys)):
        cells.setdefault(_values(point, keys), {})[point.client] = _cell(point.summary, figure, scale)
    return SweptTable(
        heading=figure if column is None else column.heading,
        keys=tuple(keys),
        clients=tuple(clients),
        rows=tuple(
            SweptRow(values=values, cells=tuple(found.get(client, SweptCell()) for client in clients))
            for values, found in cells.items()
        ),
        best=tuple(
            _best(ranked[client], keys, figure, better) if ranked[client] else _no_best(by_client[client], figure)
            for client in clients
        ),
        marks=tuple(broken_rules((f"{point.client} at {_told(point, keys)}", point.summary) for point in measured)),
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
    return BestAt(
        values=tuple(_told(point, keys) for point in left),
        marks=tuple(mark_text(point.summary) for point in left),
        why="; ".join(dict.fromkeys(reasons)),
    )


def _no_best(points: Sequence[SweptPoint], figure: str) -> BestAt:
    kinds = [_unfit(point.summary, figure) for point in points]
    return BestAt(values=(), why=f"its figures are {' or '.join(dict.fromkeys(kinds))}")


def _unfit(summary: Summary, figure: str) -> str:
    """Why the figures of repeats cannot be best."""
    reason = summary.figures[figure].reason
    return mark_text(summary) if reason is None or summary.status is Status.FAILED else f"n/a ({reason})"


def _told(point: SweptPoint, keys: Sequence[str]) -> str:
    return ", ".join(value for value in _values(point, keys) if value)


def _values(point: SweptPoint, keys: Sequence[str]) -> tuple[str, ...]:
    return tuple(point.told.get(key, "") for key in keys)


def _order(point: SweptPoint, keys: Sequence[str]) -> list[tuple[int, float, str]]:
    """Numbers in their order, then words as they are spelled."""
    order = []
    for key in keys:
        value = point.keys.get(key)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        order.append((0 if is_number else 1, float(value or 0) if is_number else 0.0, point.told.get(key, "")))
    return order


def _place(ranked: Sequence[SweptPoint], figure: str, better: Better) -> tuple[bool, float]:
    return better.place(ranked[0].summary.figures[figure].median if ranked else None)


def _cell(summary: Summary, figure: str, scale: float) -> SweptCell:
    if summary.status is Status.FAILED:
        return SweptCell(figure=str(Status.FAILED), reason=reasons_text(summary))
    found = summary.figures[figure]
    told = [found.reason, reasons_text(summary)]
    return SweptCell(
        figure=number_text(found.median, scale=scale),
        mark=mark_text(summary),
        reason="; ".join(part for part in told if part),
    )


def _options(run: Run) -> dict[str, tuple[str, dict[str, Any]]]:
    """By the name in the table, a client's own name, and those of its options that differ between its contestants."""
    every: dict[str, dict[str, Mapping[str, Any]]] = {}
    for result in run.results:
        every.setdefault(result.client, {})[identity(result.client_options)] = result.client_options
    differing = {
        client: [
            name
            for name in dict.fromkeys(name for options in found.values() for name in options)
            if len({identity(options.get(name, UNSET)) for options in found.values()}) > 1
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
