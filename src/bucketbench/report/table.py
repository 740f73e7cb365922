"""The report for people: a table a parameter set, who won, and what to know about it."""

from __future__ import annotations

import io

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from bucketbench.report.cells import columns, has_words, texts
from bucketbench.report.runs import Run
from bucketbench.report.sections import Section, arrange, shared_parameters
from bucketbench.report.wording import heading, notes, parameter_text, verdicts
from bucketbench.scenarios import find_scenario
from bucketbench.scenarios.presentation import TableForm
from bucketbench.statistics import Status

__all__ = ["PLAIN_WIDTH", "print_report", "render_table"]

PLAIN_WIDTH = 120
"""Columns of the report where it does not go to a terminal, in characters."""

_STYLES = {Status.OK: "", Status.PARTIAL: "yellow", Status.FAILED: "red"}


def render_table(run: Run, *, width: int = PLAIN_WIDTH) -> str:
    """The whole report as plain text: headings, tables, verdicts and notes.

    Args:
        run: the run to report.
        width: the longest line, in characters; longer text is wrapped.

    Raises:
        IncomparableError: where jobs of the run cannot be put together.
    """
    text = io.StringIO()
    Console(file=text, width=width, color_system=None, force_terminal=False).print(_report(run))
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines()) + "\n"


def print_report(run: Run) -> None:
    """Print the report to standard output: as wide as the terminal and in colour there, as plain text elsewhere.

    Raises:
        IncomparableError: where jobs of the run cannot be put together.
    """
    console = Console()
    if console.is_terminal:
        console.print(_report(run))
    else:
        console.file.write(render_table(run))


def _report(run: Run) -> RenderableType:
    sections = arrange(run)
    scenario = find_scenario(run.scenario)
    form, figures = scenario.table, scenario.figures
    headings = columns(sections, form)
    parts: list[RenderableType] = [Text(heading(run), style="bold")]
    shared = shared_parameters(run)
    if shared:
        parts.append(Text(f"with {parameter_text(shared)}"))
    for section in sections:
        if section.varying:
            parts += [Text(""), Text(parameter_text(section.varying), style="bold")]
        parts.append(_table(section, headings, form))
        parts += [
            Text(verdict, style="bold green" if contest.winner else "")
            for contest, verdict in zip(section.contests, verdicts(section, figures), strict=True)
        ]
        parts += [_note(line) for line in notes(section, form)]
    parts += [Text(""), Text(form.legend, style="dim")]
    parts += [_note(line) for line in run.notes]
    return Group(*parts)


def _note(line: str) -> RenderableType:
    return Padding(Text(f"- {line}"), (0, 0, 0, 2))


def _table(section: Section, headings: tuple[str, ...], form: TableForm) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1), collapse_padding=True)
    for name in headings:
        words = has_words(name, form)
        # The unit goes below the name. Where the width does not suffice, a name is folded before a number is cut.
        table.add_column(
            "\n".join(name.rsplit(" ", 1)),
            justify="left" if words else "right",
            overflow="fold",
            no_wrap=name != "client",
        )
    for entry in section.entries:
        style = "bold green" if section.won(entry) else "" if entry.summary.role.competes else "dim"
        cells = [Text(text) for text in texts(entry, headings, form)]
        cells[-1].stylize(_STYLES[entry.summary.status])
        table.add_row(*cells, style=style)
    return table
