"""The report for people: a table a parameter set, who won, and what to know about it."""

from __future__ import annotations

import io
import os
import re
import shutil
import sys
from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from bucketbench.records import State
from bucketbench.report.cells import columns, has_words, texts
from bucketbench.report.costs import figures_of, form_of
from bucketbench.report.runs import Run
from bucketbench.report.sections import Section, arrange, shared_parameters
from bucketbench.report.swept import SweptTable, swept_tables
from bucketbench.report.values import parameter_text
from bucketbench.report.wording import heading, notes, verdicts
from bucketbench.scenarios.presentation import TableForm
from bucketbench.statistics import Status

__all__ = ["output_width", "print_report", "render_table"]

_PLAIN_WIDTH = 120
"""Columns of the report where it does not go to a terminal and nobody says how wide it is to be, in characters."""

_GAP = 2  # between two columns
_LEAST_NAME = 20  # a client's name is folded to so many characters before a table is split
_PARTS_OF_NAME = re.compile(r"[^- ]*[- ]|[^- ]+")
_STYLES = {Status.OK: "", Status.PARTIAL: "yellow", Status.FAILED: "red"}
_STATE_STYLES: dict[State | None, str] = {State.DOUBTFUL: "yellow", State.INVALID: "red"}


def output_width() -> int:
    """How many characters a line of standard output has room for: as `COLUMNS` says, else as the terminal is wide."""
    if sys.stdout.isatty():
        return shutil.get_terminal_size((_PLAIN_WIDTH, 0)).columns
    asked = os.environ.get("COLUMNS", "")
    return int(asked) if asked.isdecimal() and int(asked) > 0 else _PLAIN_WIDTH


def render_table(run: Run, *, width: int = _PLAIN_WIDTH) -> str:
    """The whole report as plain text: headings, tables, verdicts and notes.

    Args:
        run: the run to report.
        width: the longest line, in characters; longer text is wrapped.

    Raises:
        IncomparableError: where jobs of the run cannot be put together.
    """
    text = io.StringIO()
    Console(file=text, width=width, color_system=None, force_terminal=False).print(_report(run, width))
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines()) + "\n"


def print_report(run: Run) -> None:
    """Print the report to standard output, in colour where that is a terminal, as wide as `output_width` says.

    Raises:
        IncomparableError: where jobs of the run cannot be put together.
    """
    console = Console()
    if console.is_terminal:
        console.print(_report(run, console.width))
    else:
        console.file.write(render_table(run, width=output_width()))


def _report(run: Run, width: int) -> RenderableType:
    sections = arrange(run)
    form, figures = form_of(run), figures_of(run)
    parts: list[RenderableType] = [Text(heading(run), style="bold")]
    shared = shared_parameters(run)
    if shared:
        parts.append(Text(f"with {parameter_text(shared)}"))
    for section in sections:
        if section.title:
            parts += [Text(""), Text(section.title, style="bold")]
        parts += _tables(section, columns(section, sections, form), form, width)
        parts += [
            Text(verdict, style="bold green" if contest.winner else "")
            for contest, verdict in zip(section.contests, verdicts(section, figures), strict=True)
        ]
        parts += [_note(line) for line in notes(section, form)]
    for swept in swept_tables(run, sections, form, figures):
        parts += [Text(""), Text(f"{swept.heading} over {', '.join(swept.keys)}", style="bold")]
        parts += _swept(swept, width)
        parts += [_note(line) for line in swept.notes()]
    parts += [Text(""), Text(form.legend, style="dim")]
    parts += [_note(line) for line in run.notes]
    return Group(*parts)


def _note(line: str) -> RenderableType:
    return Padding(Text(f"- {line}"), (0, 0, 0, 2))


def _swept(swept: SweptTable, width: int) -> list[RenderableType]:
    """The table of a sweep; where it is wider than the terminal, tables of some clients each, with the keys' values.

    No value is cut: a name is folded first.
    """
    last = ("best at", *[""] * (len(swept.keys) - 1), *(best.text for best in swept.best))
    # The parts of a key stand below one another, and of a client's name as much as a column takes.
    names = [*(key.replace(".", ".\n") for key in swept.keys), *(_folded(name, _LEAST_NAME) for name in swept.clients)]
    rows = (*(row.texts for row in swept.rows), last)
    widths = [
        _GAP + max(len(line) for line in (*name.split("\n"), *(row[place] for row in rows)))
        for place, name in enumerate(names)
    ]
    keys = list(range(len(swept.keys)))
    bands: list[list[int]] = [[*keys]]
    for place in range(len(keys), len(names)):
        if len(bands[-1]) > len(keys) and sum(widths[column] for column in (*bands[-1], place)) > width + _GAP:
            bands.append([*keys])
        bands[-1].append(place)
    tables: list[RenderableType] = []
    for band in bands:
        table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1), collapse_padding=True)
        for place in band:
            table.add_column(names[place], justify="right", overflow="fold")
        for row in rows:
            if row is last:
                table.add_section()
            table.add_row(*(Text(row[place]) for place in band), style="bold" if row is last else "")
        tables.append(table)
    return tables


def _tables(section: Section, headings: tuple[str, ...], form: TableForm, width: int) -> list[RenderableType]:
    """The section's table; where it is wider than the terminal, tables of some columns each, with the clients' names.

    No digit is cut: a name is folded first.
    """
    rows = [texts(entry, headings, form) for entry in section.entries]
    # Word below word, the unit last: numbers are narrower than their headings.
    titles = [name.replace(" ", "\n") for name in headings]
    widths = [
        _GAP + max(len(line) for text in (title, *(row[place] for row in rows)) for line in text.split("\n"))
        for place, title in enumerate(titles)
    ]
    left = width + _GAP - sum(widths[1:])
    widths[0] = min(widths[0], left if left >= _LEAST_NAME else max(width // 2, _LEAST_NAME))
    bands: list[list[int]] = [[0]]
    for place in range(1, len(headings)):
        if len(bands[-1]) > 1 and sum(widths[column] for column in (*bands[-1], place)) > width + _GAP:
            bands.append([0])
        bands[-1].append(place)
    rows = [[_folded(name, widths[0] - _GAP), *others] for name, *others in rows]
    parts: list[RenderableType] = []
    for band in bands:
        chosen = [(headings[place], titles[place], place) for place in band]
        parts += [Text(""), _table(section, chosen, rows, form)]
    parts.append(Text(""))
    return parts


def _folded(name: str, width: int) -> str:
    """A name in lines of a width, each but the last ended by a hyphen or a space where there is one."""
    lines = [""]
    for part in _PARTS_OF_NAME.findall(name):
        if lines[-1] and len(lines[-1]) + len(part.rstrip()) > width:
            lines.append("")
        lines[-1] += part
    return "\n".join(line.rstrip() for line in lines)


def _table(
    section: Section, chosen: list[tuple[str, str, int]], rows: Sequence[Sequence[str]], form: TableForm
) -> Table:
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1), collapse_padding=True)
    for name, title, place in chosen:
        table.add_column(
            title, justify="left" if has_words(name, form) else "right", overflow="fold", no_wrap=place != 0
        )
    for entry, row in zip(section.entries, rows, strict=True):
        style = "bold green" if section.won(entry) else "" if entry.summary.role.competes else "dim"
        cells = [Text(row[place]) for _, _, place in chosen]
        if chosen[-1][2] == len(row) - 1:
            cells[-1].stylize(_STYLES[entry.summary.status] or _STATE_STYLES.get(entry.summary.state, ""))
        table.add_row(*cells, style=style)
    return table
