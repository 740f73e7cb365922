"""The columns of the table and what stands in them, for every form in which it is printed."""

from __future__ import annotations

from collections.abc import Sequence

from bucketbench.report.sections import Entry, Section
from bucketbench.scenarios.presentation import Column, TableForm
from bucketbench.statistics import FigureSummary, Status

__all__ = ["NOT_AVAILABLE", "columns", "has_words", "is_measured", "texts"]

NOT_AVAILABLE = "n/a"

_CEILING = "ceiling %"


def columns(sections: Sequence[Section], form: TableForm) -> tuple[str, ...]:
    """The headings of the columns; the percentage of the ceiling is one where a ceiling was measured."""
    first, *others = (
        column.heading for column in form.columns if not column.optional or is_measured(sections, column.figure)
    )
    measured = any(entry.percent_of_ceiling.value is not None for section in sections for entry in section.entries)
    details = (heading for heading, _ in form.details)
    return ("client", first, *([_CEILING] if measured else []), *others, *details, "errors", "status")


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
        "client": summary.client + ("" if summary.role.competes else f" ({summary.role})"),
        _CEILING: _number(entry.percent_of_ceiling.value),
        **{column.heading: _cell(column, summary.figures[column.figure]) for column in form.columns},
        **{heading: summary.details.get(name, NOT_AVAILABLE) for heading, name in form.details},
        "errors": NOT_AVAILABLE if summary.errors.value is None else f"{summary.errors.value:.0f}",
        "status": _status(entry),
    }
    return [texts_by_heading[heading] for heading in headings]


def _status(entry: Entry) -> str:
    summary = entry.summary
    if summary.status is Status.PARTIAL:
        return f"{len(summary.failures)}/{summary.repeats} failed"
    return str(summary.status)


def _cell(column: Column, figure: FigureSummary) -> str:
    spread = figure.spread if column.spread else None
    beside = "" if spread is None else f" ± {_number(spread, scale=column.scale)}"
    return _number(figure.median, scale=column.scale) + beside


def _number(value: float | None, *, scale: float = 1) -> str:
    """Three digits that count, or all before the point."""
    if value is None:
        return NOT_AVAILABLE
    scaled = value * scale
    if scaled == 0:
        return "0"
    if abs(scaled) >= 99.95:
        return f"{scaled:,.0f}"
    return f"{scaled:.1f}" if abs(scaled) >= 9.995 else f"{scaled:.2f}"
