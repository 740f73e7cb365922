"""The columns of the table and what stands in them, for every form in which it is printed."""

from __future__ import annotations

import math
from collections.abc import Sequence

from bucketbench.records import State
from bucketbench.report.sections import Entry, Section
from bucketbench.scenarios.presentation import Column, TableForm
from bucketbench.statistics import FigureSummary, Role, Status, Summary

__all__ = [
    "CEILING",
    "NETWORK",
    "NOT_AVAILABLE",
    "client_text",
    "columns",
    "every_column",
    "has_words",
    "is_measured",
    "mark_text",
    "number_text",
    "texts",
]

NOT_AVAILABLE = "n/a"

_MOST_DIGITS = 8  # behind the point
_LONG = 1e15  # no figure is so large, and its digits would fill the table

CEILING = "bare loop %"
"""The column that has the figure that decides in percent of the bare loop's, which is no limit."""

NETWORK = "network %"
"""The column that has it in percent of what the network model lets through at most, which is one."""

_ROLES = {Role.CEILING: "bare loop"}


def client_text(summary: Summary) -> str:
    """A client's name, with its role where it does not compete."""
    return summary.client + ("" if summary.role.competes else f" ({_ROLES.get(summary.role, summary.role)})")


def columns(section: Section, sections: Sequence[Section], form: TableForm) -> tuple[str, ...]:
    """The headings of a section's columns; the percentages of the bare loop and of the network's limit are
    among them where these are known.

    Where all columns are optional and nothing was measured, the first is left.
    """
    shown = [column.heading for column in form.columns if not column.optional or is_measured([section], column.figure)]
    first, *others = shown or [form.columns[0].heading]
    entries = [entry for section in sections for entry in section.entries]
    percents = [
        *([CEILING] if any(entry.percent_of_ceiling.value is not None for entry in entries) else []),
        *([NETWORK] if any(entry.percent_of_network.value is not None for entry in entries) else []),
    ]
    details = [
        heading for heading, name in form.details if len({entry.summary.details.get(name) for entry in entries}) > 1
    ]
    return ("client", first, *percents, *others, *details, "errors", "status")


def every_column(form: TableForm) -> tuple[str, ...]:
    """The headings of all columns that a section may have, in their order."""
    first, *others = (column.heading for column in form.columns)
    return ("client", first, CEILING, NETWORK, *others, *(heading for heading, _ in form.details), "errors", "status")


def has_words(heading: str, form: TableForm) -> bool:
    """Whether a column has words; all others have numbers."""
    return heading in ("client", "status") or heading in dict(form.details)


def is_measured(sections: Sequence[Section], figure: str) -> bool:
    """Whether any client of the run has the figure."""
    return any(entry.summary.figures[figure].median is not None for section in sections for entry in section.entries)


def texts(entry: Entry, headings: Sequence[str], form: TableForm) -> list[str]:
    """What stands in the row of a client, in the order of the headings."""
    summary = entry.summary
    texts_by_heading = {
        "client": client_text(summary),
        CEILING: number_text(entry.percent_of_ceiling.value),
        NETWORK: number_text(entry.percent_of_network.value),
        **{column.heading: _cell(column, summary.figures[column.figure]) for column in form.columns},
        **{heading: summary.details.get(name, NOT_AVAILABLE) for heading, name in form.details},
        "errors": NOT_AVAILABLE if summary.errors.value is None else f"{summary.errors.value:.0f}",
        "status": _status(entry),
    }
    return [texts_by_heading[heading] for heading in headings]


def _status(entry: Entry) -> str:
    return mark_text(entry.summary) or str(entry.summary.status)


def mark_text(summary: Summary) -> str:
    """What must be known of a client's figures beside their values: failed repeats, and those that are doubtful or
    invalid; empty where that is nothing.
    """
    if summary.status is Status.FAILED:
        return str(summary.status)
    told, state = [], summary.state
    if summary.failures:
        told.append(f"{len(summary.failures)}/{summary.repeats} failed")
    if state is not None and state is not State.VALID:
        marked = summary.repeats_by_state[state]
        told.append(str(state) if marked == summary.repeats else f"{marked}/{summary.repeats} {state}")
    return ", ".join(told)


def _cell(column: Column, figure: FigureSummary) -> str:
    spread = figure.spread if column.spread else None
    beside = "" if spread is None else f" ± {number_text(spread, scale=column.scale)}"
    return number_text(figure.median, scale=column.scale) + beside


def number_text(value: float | None, *, scale: float = 1) -> str:
    """Three digits that count, or all before the point; two of a value below a tenth."""
    if value is None:
        return NOT_AVAILABLE
    scaled = value * scale
    if scaled == 0:
        return "0"
    if abs(scaled) >= _LONG:
        return f"{scaled:.3g}"
    if abs(scaled) >= 99.95:
        return f"{scaled:,.0f}"
    if abs(scaled) < 0.0995:
        return f"{scaled:.{min(1 - math.floor(math.log10(abs(scaled))), _MOST_DIGITS)}f}"
    return f"{scaled:.1f}" if abs(scaled) >= 9.995 else f"{scaled:.2f}"
