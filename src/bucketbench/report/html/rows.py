"""The table of a page: what stands in each row, by what it is sorted, and by which keys it is filtered and grouped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bucketbench.report.cells import CEILING, NETWORK, NOT_AVAILABLE, columns, every_column, has_words, texts
from bucketbench.report.html.figures import label_of
from bucketbench.report.html.identity import experiment_digest, part_id
from bucketbench.report.html.marks import Mark, Marks
from bucketbench.report.runs import Run
from bucketbench.report.sections import Entry, Section
from bucketbench.report.values import identity, texts_by_key
from bucketbench.results.job import JobResult
from bucketbench.scenarios.presentation import TableForm
from bucketbench.statistics import Summary

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
        label: the client's, as charts have it.
        client: its name in the table.
        cells: in the order of the headings.
        state: ``won``, ``ok``, ``partial``, ``failed`` or ``reference``.
        marks: what a reader must doubt.
        keys: every key that it can be found by, with its value as text.
    """

    id: str
    label: str
    client: str
    cells: tuple[Cell, ...]
    state: str
    marks: tuple[Mark, ...]
    keys: Mapping[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class ResultTable:
    """All rows of a run of one scenario, by the section that they belong to."""

    headings: tuple[Heading, ...]
    rows: Mapping[str, Sequence[TableRow]]


def result_table(run: Run, sections: Sequence[Section], form: TableForm, marks: Marks) -> ResultTable:
    """Make the table.

    Args:
        run: of one scenario.
        sections: its.
        form: of the scenario.
        marks: of the run.
    """
    shown = {name for section in sections for name in columns(section, sections, form)}
    names = [name for name in every_column(form) if name in shown]
    varying = list(dict.fromkeys(name for section in sections for name in section.varying))
    headings = [Heading(text=name, words=has_words(name, form)) for name in names]
    headings[1:1] = [Heading(text=name, words=False) for name in varying]
    options = {job.client: result for job, result in zip(run.jobs, run.results, strict=True)}
    every = [(section, entry) for section in sections for entry in section.entries]
    keys = texts_by_key([_keys(entry.summary, options[entry.summary.client]) for _, entry in every])
    rows: dict[str, list[TableRow]] = {}
    for (section, entry), own in zip(every, keys, strict=True):
        summary = entry.summary
        digest = experiment_digest(summary.parameters)
        cells = _cells(entry, names, form)
        cells[1:1] = [_key_cell(section, name) for name in varying]
        rows.setdefault(part_id("s", run, digest), []).append(
            TableRow(
                id=part_id("r", run, digest, summary.client),
                label=label_of(section, entry),
                client=summary.client,
                cells=tuple(cells),
                state=_state(section, entry),
                marks=tuple(marks[identity(summary.parameters)].get(summary.client, ())),
                keys=own,
            )
        )
    return ResultTable(headings=tuple(headings), rows=rows)


def _keys(summary: Summary, result: JobResult) -> dict[str, Any]:
    """All keys by which a row can be found, with their values."""
    return {
        **summary.details,
        **{f"client.{name}": value for name, value in result.client_options.items()},
        **summary.parameters,
        "client": result.client,
        "role": str(summary.role),
        "status": str(summary.status),
        "library": summary.library,
    }


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


def _key_cell(section: Section, name: str) -> Cell:
    value = section.varying.get(name)
    number = float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
    return Cell(text=section.told.get(name, ""), number=number)


def _state(section: Section, entry: Entry) -> str:
    if section.won(entry):
        return "won"
    status = str(entry.summary.status)
    return status if status != "ok" or entry.summary.role.competes else "reference"
