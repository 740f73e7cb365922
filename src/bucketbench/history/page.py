"""A history as one HTML page: what changed, a chart for each figure, and a table of the runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bucketbench.history.changes import Trend, trend_of
from bucketbench.history.series import Group, Observation
from bucketbench.history.wording import (
    change_text,
    commit_text,
    doubt_lines,
    group_title,
    host_text,
    remark_lines,
    time_text,
)
from bucketbench.report.cells import NOT_AVAILABLE, number_text
from bucketbench.report.html.encodings import SEPARATOR, says
from bucketbench.report.html.figures import Chart
from bucketbench.report.html.over_keys import Curve, Point, curves
from bucketbench.report.html.svg import render_svg
from bucketbench.report.html.template import fill_template
from bucketbench.report.values import plain_text
from bucketbench.report.wording import plural
from bucketbench.results.files import write_whole
from bucketbench.results.job import digest
from bucketbench.statistics import Better

__all__ = ["render_history", "write_history"]

_WIDTH: Final = 760  # of a chart, in pixels
_BETTER: Final = {Better.HIGHER: "more is better; ", Better.LOWER: "less is better; ", Better.NEITHER: ""}


@dataclass(frozen=True, kw_only=True, slots=True)
class _Said:
    """A change in words."""

    word: str
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class _Row:
    """A run in the table: the median of each series, or the reason why it has none."""

    id: str
    run: str
    at: str
    commit: str
    cells: tuple[tuple[str, str | None], ...]
    versions: str


@dataclass(frozen=True, kw_only=True, slots=True)
class _Part:
    """What the page says of a group."""

    id: str
    title: str
    experiment: str
    host: str
    parameters: tuple[tuple[str, str], ...]
    changes: tuple[_Said, ...]
    obstacles: tuple[str, ...]
    remarks: tuple[str, ...]
    charts: tuple[Chart, ...]
    headings: tuple[str, ...]
    rows: tuple[_Row, ...]


def render_history(groups: Sequence[Group], notes: Sequence[str]) -> str:
    """A history as a page of its own. Of the same runs it is the same.

    Args:
        groups: at least one.
        notes: what a reader must know, such as which runs were left out.

    Raises:
        UsageError: what draws charts and fills the page is not installed.
    """
    parts = [_part(group) for group in groups]
    runs = sum(len(group.observations) for group in groups)
    title = parts[0].title if len(parts) == 1 else f"{plural(runs, 'run')} in {len(parts)} groups"
    return fill_template(
        "history.html.jinja", scripts=("tip.js",), title=title, groups=parts, notes=list(notes), separator=SEPARATOR
    )


def write_history(groups: Sequence[Group], notes: Sequence[str], path: Path) -> None:
    """Write the page.

    Raises:
        ResultsError: the file could not be written.
        UsageError: as of ``render_history``.
    """
    page = render_history(groups, notes)
    with write_whole(path) as unfinished:
        unfinished.write_text(page, encoding="utf-8")


def _part(group: Group) -> _Part:
    trends = [trend_of(series) for series in group.series]
    key = digest({"scenario": group.scenario, "experiment": group.experiment, "host": dict(group.host)})[:8]
    obstacles: dict[str, list[str]] = {}
    for trend in trends:
        if trend.obstacle is not None:
            obstacles.setdefault(trend.obstacle, []).append(trend.series.client)
    return _Part(
        id=f"g{key}",
        title=group_title(group),
        experiment=group.experiment,
        host=host_text(group),
        parameters=tuple((name, plain_text(value)) for name, value in group.parameters.items()),
        changes=tuple(
            _Said(word=change.word, text=change_text(trend, change)) for trend in trends for change in trend.changes
        ),
        obstacles=tuple(f"{', '.join(dict.fromkeys(names))}: {why}" for why, names in obstacles.items()),
        remarks=tuple(remark_lines(trends)),
        charts=tuple(
            _chart(figure, [trend for trend in trends if _axis(trend) == (figure, unit)], group)
            for figure, unit in dict.fromkeys(map(_axis, trends))
        ),
        headings=tuple(f"{trend.series.client}: {trend.series.figure}, {trend.series.unit}" for trend in trends),
        rows=tuple(_rows(group, trends, key)),
    )


def _axis(trend: Trend) -> tuple[str, str]:
    return trend.series.figure, trend.series.unit


def _chart(figure: str, trends: Sequence[Trend], group: Group) -> Chart:
    order = [_short(one.run) for one in group.observations]
    unit, better = trends[0].series.unit, trends[0].series.better
    lines = [Curve(label=trend.series.client, points=[_point(trend, one) for one in trend.known]) for trend in trends]
    description = curves(
        [line for line in lines if line.points], key="run", unit=f"{figure}, {unit}", order=order, width=_WIDTH
    )
    marks = [
        {"at": _short(change.run.run), "says": f"{trend.series.client}{SEPARATOR}{change_text(trend, change)}"}
        for trend in trends
        for change in trend.changes
    ]
    if marks:
        description["layer"].insert(0, _change_rules(marks, order))
    return Chart(
        title=f"{figure}, {unit}",
        hint=f"{_BETTER[better]}a point is the median of a run, its bar goes from the least to the greatest repeat; a "
        "dashed rule is the first run of a new level",
        svg=render_svg(description) if any(line.points for line in lines) else "",
        absent=(
            *(
                f"{trend.series.client} in {one.run}: n/a: {one.reason}"
                for trend in trends
                for one in trend.series.observations
                if one.reason is not None
            ),
            *doubt_lines(trends),
        ),
    )


def _change_rules(marks: Sequence[dict[str, str]], order: Sequence[str]) -> dict[str, Any]:
    return {
        "data": {"values": list(marks)},
        "mark": {"type": "rule", "strokeDash": [5, 4], "strokeWidth": 2, "color": "var(--doubt-edge)"},
        "encoding": {"x": {"field": "at", "type": "ordinal", "sort": list(order)}, **says()},
    }


def _point(trend: Trend, one: Observation) -> Point:
    series, middle = trend.series, one.median or 0.0
    return Point(
        at=_short(one.run),
        median=middle,
        low=min(one.values),
        high=max(one.values),
        says=f"{series.client}{SEPARATOR}{one.run}, {time_text(one)}, commit {commit_text(one.commit)}: median "
        f"{number_text(middle)} {series.unit} of {plural(len(one.values), 'repeat')}, {number_text(min(one.values))} "
        f"to {number_text(max(one.values))}",
    )


def _rows(group: Group, trends: Sequence[Trend], key: str) -> list[_Row]:
    rows = []
    earlier: dict[str, str | None] = {}
    for one in group.observations:
        found = [next((other for other in trend.series.observations if other.run == one.run), None) for trend in trends]
        versions = {name: text for other in found if other is not None for name, text in other.versions.items()}
        changed = [
            f"{name} {earlier[name]} → {text}" for name, text in versions.items() if earlier.get(name, text) != text
        ]
        earlier |= versions
        rows.append(
            _Row(
                id=f"r{digest({'group': key, 'run': one.run})[:8]}",
                run=_short(one.run),
                at=time_text(one),
                commit=commit_text(one.commit),
                cells=tuple(_cell(other) for other in found),
                versions=", ".join(changed),
            )
        )
    return rows


def _cell(one: Observation | None) -> tuple[str, str | None]:
    if one is None:
        return NOT_AVAILABLE, "the run has no job of it"
    return number_text(one.median), one.reason


def _short(run: str) -> str:
    return run.partition("/")[2]
