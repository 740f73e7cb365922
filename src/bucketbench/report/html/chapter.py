"""All that a page says of one run of one scenario."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from bucketbench.report.cells import number_text
from bucketbench.report.costs import figures_of, form_of
from bucketbench.report.html.figures import Group, figure_groups, limit_charts
from bucketbench.report.html.identity import experiment_digest, part_id
from bucketbench.report.html.marks import Marks, differences, marks_of
from bucketbench.report.html.provenance import Provenance, provenance
from bucketbench.report.html.raw_records import JobRecords, read_records
from bucketbench.report.html.rows import ResultTable, result_table
from bucketbench.report.html.streams import stream_groups
from bucketbench.report.html.sweeps import Axis, axes
from bucketbench.report.runs import Run
from bucketbench.report.sections import Section, arrange
from bucketbench.report.swept import SweptTable, swept_tables
from bucketbench.report.values import identity
from bucketbench.report.wording import notes, plural, verdicts
from bucketbench.scenarios.presentation import TableForm
from bucketbench.statistics import FigureSet, Interval, Verdict

__all__ = ["Chapter", "chapter_of"]

_MOST_DRAWN: Final = 8  # sections with charts of their own; a page of hundreds would be too large to open


@dataclass(frozen=True, kw_only=True, slots=True)
class Said:
    """A verdict: its sentence, and whether there is a winner."""

    text: str
    decided: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class FigureLine:
    """A figure of every client of a section: text, and the reason where it is n/a."""

    name: str
    unit: str
    cells: tuple[tuple[str, str | None], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """A section of the page, for one parameter set.

    Args:
        id: of the part.
        title: in what it differs from the others; empty where it is alone.
        verdicts: who won.
        notes: what a reader must know.
        groups: its charts.
        clients: the columns of ``lines``.
        lines: every figure.
    """

    id: str
    title: str
    verdicts: tuple[Said, ...]
    notes: tuple[str, ...]
    groups: tuple[Group, ...]
    clients: tuple[str, ...]
    lines: tuple[FigureLine, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """A job that failed."""

    client: str
    parameters: str
    repeat: int
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Chapter:
    """One run of one scenario.

    Args:
        id: of the chapter.
        scenario: its name.
        title: what ran.
        warnings: what a reader must know before any number.
        varying: the keys in which its parameter sets differ; rows with other values are not comparable.
        parts: one a parameter set.
        table: all rows.
        legend: how to read the table.
        swept: the figures that clients are compared by, over the values of the keys that were swept.
        axes: the keys that were swept, drawn.
        failures: jobs that failed.
        missing: which jobs are not there.
        provenance: on what and with what it was measured.
    """

    id: str
    scenario: str
    title: str
    warnings: tuple[str, ...]
    varying: tuple[str, ...]
    parts: tuple[Part, ...]
    table: ResultTable
    legend: str
    swept: tuple[SweptTable, ...]
    axes: tuple[Axis, ...]
    failures: tuple[Failure, ...]
    missing: tuple[str, ...]
    provenance: Provenance


def chapter_of(run: Run) -> Chapter:
    """Gather all that a page says of a run of one scenario.

    Raises:
        UsageError: this version knows no such scenario, or what draws charts is not installed.
        IncomparableError: where jobs of the run cannot be put together.
    """
    sections = arrange(run)
    form, figures = form_of(run), figures_of(run)
    drawn = {identity(section.entries[0].summary.parameters) for section in sections[:_MOST_DRAWN]}
    records, absent = read_records(run, form.streams, parameters=drawn)
    marks = marks_of(run)
    by_parameters: dict[str, list[JobRecords]] = {}
    for one in records:
        by_parameters.setdefault(one.parameters, []).append(one)
    parts = [
        _part(run, section, by_parameters, marks, form, figures, drawn=number < _MOST_DRAWN)
        for number, section in enumerate(sections)
    ]
    undrawn = len(parts) - _MOST_DRAWN
    unlike = differences(run.results)
    warnings = [
        *run.notes,
        *([f"rows are not comparable where these differ between the jobs: {'; '.join(unlike)}"] if unlike else []),
        *absent,
        *(
            [f"charts are drawn for the first {_MOST_DRAWN} parameter sets, not for {undrawn} more"]
            if undrawn > 0
            else []
        ),
    ]
    titles = {identity(section.entries[0].summary.parameters): section.title for section in sections}
    failed = sum(job.failure is not None for job in run.jobs)
    clients = len({job.client for job in run.jobs})
    return Chapter(
        id=part_id("c", run),
        scenario=run.scenario,
        title=("" if run.label is None else f"{run.label}: ")
        + f"{run.scenario}: {plural(len(run.jobs), 'job')} of {plural(clients, 'client')}, {failed} failed",
        warnings=tuple(warnings),
        varying=tuple(dict.fromkeys(name for section in sections for name in section.varying)),
        parts=tuple(parts),
        table=result_table(run, sections, form, marks),
        legend=form.legend,
        swept=tuple(swept_tables(run, sections, form, figures)),
        axes=tuple(axes(run, sections, form, figures)),
        failures=tuple(
            Failure(
                client=job.client,
                parameters=titles[identity(job.parameters)],
                repeat=job.repeat,
                reason=job.failure,
            )
            for job in run.jobs
            if job.failure is not None
        ),
        missing=tuple(_missing(sections)),
        provenance=provenance(run, sections),
    )


def _part(
    run: Run,
    section: Section,
    records: Mapping[str, Sequence[JobRecords]],
    marks: Marks,
    form: TableForm,
    figures: FigureSet,
    *,
    drawn: bool,
) -> Part:
    parameters = section.entries[0].summary.parameters
    own = identity(parameters)
    groups: list[Group] = []
    if drawn:
        groups = figure_groups(section, form, figures)
        if groups:
            groups[0] = Group(title=groups[0].title, charts=(*groups[0].charts, *limit_charts(section, form)))
        groups += stream_groups(section, records.get(own, ()), form)
    doubts = [
        f"{client}: {mark.word}: {mark.reason}"
        for client, found in marks[own].items()
        for mark in found
        if not mark.is_rule  # the notes have those
    ]
    return Part(
        id=part_id("s", run, experiment_digest(parameters)),
        title=section.title,
        verdicts=tuple(
            Said(text=text, decided=contest.verdict is Verdict.WON)
            for contest, text in zip(section.contests, verdicts(section, figures), strict=True)
        ),
        notes=(*notes(section, form), *doubts),
        groups=tuple(groups),
        clients=tuple(entry.summary.client for entry in section.entries),
        lines=tuple(_line(name, section) for name in section.entries[0].summary.figures),
    )


def _line(name: str, section: Section) -> FigureLine:
    cells: list[tuple[str, str | None]] = []
    for entry in section.entries:
        figure = entry.summary.figures.get(name)
        if figure is None or figure.median is None:
            cells.append(("n/a", "the results do not have it" if figure is None else figure.reason))
            continue
        interval = figure.interval()
        between = (
            f" ({number_text(interval.low)} to {number_text(interval.high)})" if isinstance(interval, Interval) else ""
        )
        cells.append((f"{number_text(figure.median)}{between}", None))
    known = section.entries[0].summary.figures[name]
    return FigureLine(name=name, unit=known.unit, cells=tuple(cells))


def _missing(sections: Sequence[Section]) -> list[str]:
    """Clients that other parameter sets have, and repeats that other clients have."""
    every = dict.fromkeys(entry.summary.client for section in sections for entry in section.entries)
    repeats = max(entry.summary.repeats for section in sections for entry in section.entries)
    lines = []
    for section in sections:
        where = f" with {section.title}" if section.title else ""
        there = {entry.summary.client: entry.summary.repeats for entry in section.entries}
        lines += [f"{client}{where}: no result" for client in every if client not in there]
        lines += [
            f"{client}{where}: {found} of {plural(repeats, 'repeat')}"
            for client, found in there.items()
            if found < repeats
        ]
    return lines
