"""A history as text, as Markdown and as JSON."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any, Final

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from bucketbench.history.changes import LevelChange, Trend, trend_of
from bucketbench.history.series import Group, Observation
from bucketbench.report.cells import number_text
from bucketbench.report.markdown import escaped, table_line
from bucketbench.report.values import parameter_text
from bucketbench.report.wording import plural

__all__ = [
    "as_json",
    "as_markdown",
    "as_text",
    "change_text",
    "commit_text",
    "doubt_lines",
    "group_title",
    "host_text",
    "remark_lines",
    "time_text",
]

_HEADINGS: Final = ("client", "figure", "runs", "first", "last", "course", "changes")
_WORDS: Final = ("client", "figure", "course")
_BARS: Final = "▁▂▃▄▅▆▇█"
_MOST_BARS: Final = 30  # the last runs
_COMMIT: Final = 12  # characters of one that are told
_STYLES: Final = {"better": "green", "worse": "red"}


def as_text(groups: Sequence[Group], *, width: int) -> str:
    """Tables for a terminal of so many characters, and below each what changed."""
    parts = []
    for group in groups:
        trends = [trend_of(series) for series in group.series]
        table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1), collapse_padding=True)
        for name in _HEADINGS:
            table.add_column(name, justify="left" if name in _WORDS else "right", overflow="fold")
        for trend in trends:
            cells = [Text(text) for text in _cells(trend)]
            cells[-1].stylize(_STYLES.get(trend.changes[-1].word, "") if trend.changes else "")
            table.add_row(*cells)
        text = io.StringIO()
        console = Console(file=text, width=width, color_system=None, force_terminal=False)
        console.print(Text(group_title(group)))
        console.print(table)
        for line in _lines(trends):
            console.print(Text(f"- {line}"))
        parts.append("\n".join(line.rstrip() for line in text.getvalue().splitlines()))
    return "\n\n".join(parts)


def as_markdown(groups: Sequence[Group]) -> str:
    """Tables; what became worse is in bold."""
    parts = []
    for group in groups:
        trends = [trend_of(series) for series in group.series]
        lines = [escaped(group_title(group)), "", table_line(_HEADINGS)]
        lines.append(table_line(":--" if name in _WORDS else "--:" for name in _HEADINGS))
        for trend in trends:
            cells = [escaped(text) for text in _cells(trend)]
            is_worse = any(change.word == "worse" for change in trend.changes)
            lines.append(table_line(f"**{cell}**" if is_worse else cell for cell in cells))
        told = _lines(trends)
        lines += [""] * bool(told) + [f"- {escaped(line)}" for line in told]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def as_json(groups: Sequence[Group], notes: Sequence[str]) -> dict[str, Any]:
    """The history as plain JSON values: every value of every run, and every change."""
    return {
        "groups": [
            {
                "scenario": group.scenario,
                "experiment": group.experiment,
                "parameters": dict(group.parameters),
                "host": dict(group.host),
                "series": [_json_series(trend_of(series)) for series in group.series],
            }
            for group in groups
        ],
        "notes": list(notes),
    }


def group_title(group: Group) -> str:
    """What a group's runs have in common, in a line."""
    told = f", {parameter_text(group.parameters)}" if group.parameters else ""
    runs = plural(len(group.observations), "run")
    return f"{group.scenario}{told}: {runs} of experiment {group.experiment} on {host_text(group)}"


def host_text(group: Group) -> str:
    """The class of the machines."""
    host = group.host
    if not host:
        return "machines of any class"
    told = [
        None if host["cpu_cores"] is None else f"{host['cpu_cores']} cores of {host['cpu_model'] or 'an unknown CPU'}",
        None if host["memory_gib"] is None else f"{host['memory_gib']} GiB",
        " ".join(filter(None, (host["system"], host["machine"]))),
        host.get("instance_type"),
    ]
    return ", ".join(filter(None, told)) or "unknown machines"


def change_text(trend: Trend, change: LevelChange) -> str:
    """A change in a sentence: which run, how much, how sure, and what changed with it."""
    series = trend.series
    told = [] if change.commits is None else [f"commit {' → '.join(map(commit_text, change.commits))}"]
    told += [f"{name} {before} → {after}" for name, (before, after) in change.versions.items()]
    return (
        f"{series.client}: {series.figure} {change.word} since {change.run.run} ({time_text(change.run)}), "
        f"{change.ratio:.3g} times the level before (p = {change.chance:.2g}); "
        + (f"since {change.before.run}: {', '.join(told)}" if told else "neither commit nor versions changed with it")
    )


def commit_text(commit: str | None) -> str:
    """A commit in few characters."""
    if commit is None:
        return "unknown"
    return f"{commit[:_COMMIT]}{'-dirty' * commit.endswith('-dirty')}"


def time_text(observation: Observation) -> str:
    """When a run began, to the minute."""
    return f"{observation.at:%Y-%m-%d %H:%M}"


def _cells(trend: Trend) -> list[str]:
    series, medians = trend.series, trend.medians
    figure = series.figure if series.unit in ("", "ratio") else f"{series.figure} [{series.unit}]"
    changes = ", ".join(f"{change.word} x{change.ratio:.3g}" for change in trend.changes)
    return [
        series.client,
        figure,
        str(len(trend.known)),
        number_text(medians[0] if medians else None),
        number_text(medians[-1] if medians else None),
        _course(medians[-_MOST_BARS:]),
        changes or ("none" if trend.obstacle is None else "n/a"),
    ]


def _course(medians: Sequence[float]) -> str:
    """The medians as bars from 0 to the greatest."""
    most = max(medians, default=0.0)
    return "".join(_BARS[min(int(value / most * len(_BARS)), len(_BARS) - 1)] for value in medians)


def _lines(trends: Sequence[Trend]) -> list[str]:
    lines = [change_text(trend, change) for trend in trends for change in trend.changes]
    obstacles: dict[str, list[str]] = {}
    for trend in trends:
        if trend.obstacle is not None:
            obstacles.setdefault(trend.obstacle, []).append(f"{trend.series.client}, {trend.series.figure}")
    lines += [f"{'; '.join(names)}: changes n/a: {obstacle}" for obstacle, names in obstacles.items()]
    lines += [
        f"{trend.series.client}: {trend.series.figure} n/a in {one.run}: {one.reason}"
        for trend in trends
        for one in trend.series.observations
        if one.reason is not None
    ]
    return [*lines, *doubt_lines(trends), *remark_lines(trends)]


def doubt_lines(trends: Sequence[Trend]) -> list[str]:
    """Whose values are doubtful, in how many runs, and by which rules."""
    runs: dict[str, dict[str, Observation]] = {}
    for trend in trends:
        runs.setdefault(trend.series.client, {}).update({one.run: one for one in trend.known if one.doubts})
    return [
        f"{client}: doubtful in {plural(len(found), 'run')}, by "
        f"{', '.join(dict.fromkeys(rule for one in found.values() for rule in one.doubts))}: {', '.join(found)}"
        for client, found in runs.items()
        if found
    ]


def remark_lines(trends: Sequence[Trend]) -> list[str]:
    """In which runs values are of fewer repeats than were to be measured."""
    lines = []
    for series in (trend.series for trend in trends):
        found = [one for one in series.observations if one.remark is not None]
        if found:
            lines.append(
                f"{series.client}: {series.figure} of fewer repeats in {len(found)} of "
                f"{plural(len(series.observations), 'run')}, at last in {found[-1].run}: {found[-1].remark}"
            )
    return lines


def _json_series(trend: Trend) -> dict[str, Any]:
    series = trend.series
    return {
        "client": series.client,
        "figure": series.figure,
        "unit": series.unit,
        "runs": [
            {
                "run": one.run,
                "started_at": one.at.isoformat(),
                "commit": one.commit,
                "versions": dict(one.versions),
                "median": one.median,
                "values": list(one.values),
                "reason": one.reason,
                "doubts": dict(one.doubts),
                "remark": one.remark,
            }
            for one in series.observations
        ],
        "changes": [
            {
                "run": change.run.run,
                "before": change.before.run,
                "effect": change.word,
                "ratio": change.ratio,
                "chance": change.chance,
                "commits": None if change.commits is None else list(change.commits),
                "versions": {name: list(pair) for name, pair in change.versions.items()},
            }
            for change in trend.changes
        ],
        "changes_reason": trend.obstacle,
    }
