"""The report as Markdown, for documentation."""

from __future__ import annotations

from collections.abc import Iterable

from bucketbench.report.cells import columns, has_words, texts
from bucketbench.report.runs import Run
from bucketbench.report.sections import arrange, shared_parameters
from bucketbench.report.wording import notes, parameter_text, verdicts
from bucketbench.scenarios import find_scenario

__all__ = ["render_markdown"]


def render_markdown(run: Run) -> str:
    """The tables, verdicts and notes of a run as Markdown, the winner in bold.

    Raises:
        IncomparableError: where jobs of the run cannot be put together.
    """
    sections = arrange(run)
    scenario = find_scenario(run.scenario)
    form, figures = scenario.table, scenario.figures
    headings = columns(sections, form)
    lines = [f"`{parameter_text(shared_parameters(run))}`", ""]
    for section in sections:
        if section.varying:
            lines += [f"`{parameter_text(section.varying)}`", ""]
        lines += [_line(headings), _line(":--" if has_words(name, form) else "--:" for name in headings)]
        for entry in section.entries:
            cells = [_escaped(text) for text in texts(entry, headings, form)]
            lines.append(_line(f"**{cell}**" if section.won(entry) else cell for cell in cells))
        for verdict in verdicts(section, figures):
            lines += ["", _escaped(verdict)]
        lines.append("")
        found = notes(section, form)
        lines += [f"- {_escaped(note)}" for note in found] + [""] * bool(found)
    lines += [form.legend]
    lines += [""] * bool(run.notes) + [f"- {_escaped(note)}" for note in run.notes]
    return "\n".join(lines) + "\n"


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _escaped(text: str) -> str:
    for character in "\\|*_`<":
        text = text.replace(character, f"\\{character}")
    return text
