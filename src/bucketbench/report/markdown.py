"""The report as Markdown, for documentation."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from bucketbench.report.cells import columns, has_words, texts
from bucketbench.report.costs import figures_of, form_of
from bucketbench.report.runs import Run
from bucketbench.report.sections import arrange, shared_parameters
from bucketbench.report.swept import swept_tables
from bucketbench.report.values import parameter_text
from bucketbench.report.wording import notes, verdicts

__all__ = ["code", "escaped", "render_markdown", "table_line"]


# Source: CommonMark 0.31.2 and GitHub's extensions of it.
_MARKUP: Final = re.compile(r"[\\|*_`<~]|&(?=#?\w+;)|\[(?=[^\]]*\][(\[:])")
_AT_THE_START: Final = re.compile(r"^(\d*)(?=>|[#+.)=-]{1,6}(?:\s|$))")


def render_markdown(run: Run) -> str:
    """The tables, verdicts and notes of a run as Markdown, the winner in bold.

    Raises:
        IncomparableError: where jobs of the run cannot be put together.
    """
    sections = arrange(run)
    form, figures = form_of(run), figures_of(run)
    lines = [] if run.label is None else [f"**{escaped(run.label)}**", ""]
    lines += [code(parameter_text(shared_parameters(run))), ""]
    for section in sections:
        if section.title:
            lines += [code(section.title), ""]
        headings = columns(section, sections, form)
        lines += [table_line(headings), table_line(":--" if has_words(name, form) else "--:" for name in headings)]
        for entry in section.entries:
            cells = [escaped(text) for text in texts(entry, headings, form)]
            lines.append(table_line(f"**{cell}**" if section.won(entry) else cell for cell in cells))
        for verdict in verdicts(section, figures):
            lines += ["", escaped(verdict)]
        lines.append("")
        found = notes(section, form)
        lines += [f"- {escaped(note)}" for note in found] + [""] * bool(found)
    for table in swept_tables(run, sections, form, figures):
        lines += [f"{escaped(table.heading)} over {escaped(', '.join(table.keys))}", ""]
        aligned = ["--:"] * (len(table.keys) + len(table.clients))
        lines += [table_line(map(escaped, (*table.keys, *table.clients))), table_line(aligned)]
        lines += [table_line(map(escaped, row.texts)) for row in table.rows]
        lines += [
            table_line(["**best at**", *[""] * (len(table.keys) - 1), *(escaped(best.text) for best in table.best)])
        ]
        found = table.notes()
        lines += ["", *(f"- {escaped(note)}" for note in found), *[""] * bool(found)]
    lines += [escaped(form.legend)]
    lines += [""] * bool(run.notes) + [f"- {escaped(note)}" for note in run.notes]
    return "\n".join(lines) + "\n"


def table_line(cells: Iterable[str]) -> str:
    """A line of a table."""
    return f"| {' | '.join(cells)} |"


def escaped(text: str) -> str:
    """Text that stands for itself in Markdown, in one line."""
    text = _MARKUP.sub(r"\\\g<0>", " ".join(text.splitlines()))
    return _AT_THE_START.sub(r"\1\\", text)


def code(text: str) -> str:
    """Text as code, whatever is in it: the marks around it are longer than any in it."""
    line = " ".join(text.splitlines())
    marks = "`" * (1 + max((len(found) for found in re.findall("`+", line)), default=0))
    space = " " * (line.startswith("`") or line.endswith("`"))
    return f"{marks}{space}{line}{space}{marks}"
