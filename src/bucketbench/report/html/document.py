"""The whole page of runs: its chapters, and what its script must know of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bucketbench.errors import UsageError
from bucketbench.report.html.chapter import Chapter, chapter_of
from bucketbench.report.html.encodings import SEPARATOR
from bucketbench.report.html.template import fill_template
from bucketbench.report.runs import Run, by_scenario
from bucketbench.results.files import write_whole

__all__ = ["render_html", "write_html"]


def render_html(runs: Sequence[Run]) -> str:
    """Runs as one HTML page.

    All text of the results is escaped, and by its policy the page runs no script and no style but its own, whatever
    stands in it.

    Args:
        runs: at least one, of any scenarios.

    Returns:
        The page. Of the same results it is the same.

    Raises:
        UsageError: what draws charts and fills the page is not installed, or a scenario is not known.
        IncomparableError: where jobs of a run cannot be put together.
    """
    chapters = [chapter_of(part) for run in runs for part in by_scenario(run)]
    given = [chapter.id for chapter in chapters]
    twice = next((chapter for chapter in chapters if given.count(chapter.id) > 1), None)
    if twice is not None:
        raise UsageError(f"the run {twice.provenance.facts[0][1]} is given twice: name each run once")
    return fill_template(
        "report.html.jinja",
        scripts=("report.js", "tip.js"),
        title=_title(chapters),
        chapters=chapters,
        data=_data(chapters),
    )


def write_html(runs: Sequence[Run], path: Path) -> None:
    """Write the page.

    Args:
        runs: as of ``render_html``.
        path: of the file; its directory must be there.

    Raises:
        ResultsError: the file could not be written.
        UsageError: as of ``render_html``.
        IncomparableError: likewise.
    """
    page = render_html(runs)
    with write_whole(path) as unfinished:
        unfinished.write_text(page, encoding="utf-8")


def _title(chapters: Sequence[Chapter]) -> str:
    return (
        chapters[0].title if len(chapters) == 1 else f"{len(chapters)} runs: {', '.join(c.scenario for c in chapters)}"
    )


def _data(chapters: Sequence[Chapter]) -> dict[str, Any]:
    """What the script must know of the rows; what all of them have in common is there once."""
    rows = [row for chapter in chapters for rows in chapter.table.rows.values() for row in rows]
    first = rows[0].keys
    shared = {name: value for name, value in first.items() if all(row.keys.get(name) == value for row in rows)}
    return {
        "separator": SEPARATOR,
        "parts": {part.id: part.title for chapter in chapters for part in chapter.parts},
        "shared": shared,
        "rows": {row.id: {name: value for name, value in row.keys.items() if name not in shared} for row in rows},
    }
