"""The table of a page: what stands in each row, by what it is sorted, and by which keys it is filtered and grouped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bucketbench.report.cells import CEILING, NETWORK, NOT_AVAILABLE, columns, every_column, has_words, texts
from bucketbench.report.html.figures import label_of
from bucketbench.report.html.identity import experiment_digest, part_id
from bucketbench.report.html.marks import Mark, marks_by_client
from bucketbench.report.runs import Run
from bucketbench.report.sections import Entry, Section
from bucketbench.report.wording import plain_text
from bucketbench.scenarios.presentation import TableForm

__all__ = ["Cell", "Heading", "ResultTable", "TableRow", "result_table"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Heading:
    """A column: its words, and whether they are words that stand in it."""

    text: str
    words: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """What stands in a cell: its text, the number that it is sorted by, and the reason where it is n/a."""

    text: str
    number: float | None = None
    reason: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class TableRow:
    """A client and parameter set.

    Args:
        id: of the row.
        section: of the section that it belongs to.
        label: the client's, as charts have it.
        client: its name in the table.
        cells: in the order of the headings.
        state: ``won``, ``ok``, ``partial``, ``failed`` or ``reference``.
        marks: what a reader must doubt.
        keys: every key that it can be found by, with its value.
    """

    id: str
    section: str
    label: str
    client: str
    cells: tuple[Cell, ...]
    state: str
    marks: tuple[Mark, ...]
    keys: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class ResultTable:
    """All rows of a run of one scenario, those of a section together."""

    headings: tuple[Heading, ...]
    rows: tuple[TableRow, ...]


def result_table(run: Run, sections: Sequence[Section], form: TableForm) -> ResultTable:
    """Make the table.

    Args:
        run: of one scenario.
        sections: its.
        form: of the scenario.
    """
    shown = {name for section in sections for name in columns(section, sections, form)}
    names = [name for name in every_column(form) if name in shown]
    varying = list(dict.fromkeys(name for section in sections for name in section.varying))
    headings = [Heading(text=name, words=has_words(name, form)) for name in names]
    headings[1:1] = [Heading(text=name, words=False) for name in varying]
    options = {job.client: result for job, result in zip(run.jobs, run.results, strict=True)}
    rows = []
    for section in sections:
        digest = experiment_digest(section.entries[0].summary.parameters)
        marks = marks_by_client(run, section)
        for entry in section.entries:
            summary = entry.summary
            cells = _cells(entry, names, form)
            cells[1:1] = [_key_cell(section.varying.get(name)) for name in varying]
            result = options[summary.client]
            keys = {
                **summary.details,
                **{f"client.{name}": value for name, value in result.client_options.items()},
                **summary.parameters,
                "client": result.client,
                "role": str(summary.role),
                "status": str(summary.status),
                "library": summary.library,
            }
            rows.append(
                TableRow(
                    id=part_id("r", run, digest, summary.client),
                    section=part_id("s", run, digest),
                    label=label_of(section, entry),
                    client=summary.client,
                    cells=tuple(cells),
                    state=_state(section, entry),
                    marks=tuple(marks.get(summary.client, ())),
                    keys={name: plain_text(value) for name, value in keys.items()},
                )
            )
    return ResultTable(headings=tuple(headings), rows=tuple(rows))


def _cells(entry: Entry, names: Sequence[str], form: TableForm) -> list[Cell]:
    summary = entry.summary
    numbers: dict[str, tuple[float | None, str | None]] = {
        CEILING: (entry.percent_of_ceiling.value, entry.percent_of_ceiling.reason),
        NETWORK: (entry.percent_of_network.value, entry.percent_of_network.reason),
        "errors": (summary.errors.value, summary.errors.reason),
    }
    for column in form.columns:
        figure = summary.figures[column.figure]
        numbers[column.heading] = (figure.median, figure.reason)
    cells = []
    for name, text in zip(names, texts(entry, names, form), strict=True):
        number, reason = numbers.get(name, (None, None))
        told = reason or (f"the job's details have no {name}" if text == NOT_AVAILABLE else None)
        cells.append(Cell(text=text, number=number, reason=told))
    return cells


def _key_cell(value: Any) -> Cell:
    number = float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
    return Cell(text=plain_text(value), number=number)


def _state(section: Section, entry: Entry) -> str:
    if section.won(entry):
        return "won"
    status = str(entry.summary.status)
    return status if status != "ok" or entry.summary.role.competes else "reference"
