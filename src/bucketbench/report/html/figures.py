"""The charts of a scenario's figures: for each what the repeats of each client gave."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bucketbench.records import Figure
from bucketbench.report.cells import client_text, number_text
from bucketbench.report.html.by_client import Row, bars, dots
from bucketbench.report.html.encodings import SEPARATOR, Tone
from bucketbench.report.html.svg import render_svg
from bucketbench.report.sections import Entry, Section
from bucketbench.report.wording import plural, shortened
from bucketbench.scenarios.presentation import TableForm
from bucketbench.statistics import Better, FigureSet, FigureSummary, Interval, Role, Status

__all__ = ["Chart", "Group", "figure_groups", "label_of", "limit_charts", "tone_of", "words"]

_BETTER = {Better.HIGHER: "more is better", Better.LOWER: "less is better", Better.NEITHER: ""}


@dataclass(frozen=True, kw_only=True, slots=True)
class Chart:
    """A chart with what stands around it.

    Args:
        title: what is drawn.
        hint: how to read it.
        svg: the drawing; empty where there is nothing to draw.
        absent: who is not in it, and why.
    """

    title: str
    hint: str
    svg: str
    absent: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """Charts below one heading."""

    title: str
    charts: tuple[Chart, ...]


def figure_groups(section: Section, form: TableForm, figures: FigureSet) -> list[Group]:
    """The charts of the figures by which clients are compared, then the scenario's panels."""
    panels = [("Speed", tuple(figures.contests)), *((panel.title, panel.figures) for panel in form.panels)]
    groups = []
    for title, names in panels:
        charts = [_figure_chart(section, name, form, figures) for name in names if _has(section, name)]
        if charts:
            groups.append(Group(title=title, charts=tuple(charts)))
    return groups


def limit_charts(section: Section, form: TableForm) -> list[Chart]:
    """Each client in percent of the bare loop, and of what the network model lets through; those that are known."""
    heading = form.columns[0].heading
    found = [
        _percent_chart(
            section,
            [entry.percent_of_ceiling for entry in section.entries],
            title=f"{heading} in percent of the bare loop",
            hint="the fastest bare loop over libcurl, measured in the same run with the same parameters: no limit",
            of="the bare loop",
        ),
        _percent_chart(
            section,
            [entry.percent_of_network for entry in section.entries],
            title=f"{heading} in percent of the network's limit",
            hint="the most that the network model lets through: its bandwidth, or its request rate",
            of="the network's limit",
        ),
        _percent_chart(
            section,
            [entry.percent_of_concurrency for entry in section.entries],
            title=f"{heading} in percent of what the client's requests can carry",
            hint="as many requests at once as the client has, each as fast as the network model allows: what is missing"
            " was lost to the client or the host, and more than 100 takes more requests at once",
            of="what its requests can carry",
        ),
    ]
    return [chart for chart in found if chart is not None]


def _percent_chart(section: Section, percents: Sequence[Figure], *, title: str, hint: str, of: str) -> Chart | None:
    told = list(zip(section.entries, percents, strict=True))
    rows = []
    for entry, percent in told:
        if percent.value is None:
            continue
        label = label_of(section, entry)
        says = f"{label}{SEPARATOR}{number_text(percent.value)} % of {of}"
        rows.append(
            Row(
                label=label,
                tone=tone_of(section, entry),
                values=(),
                median=percent.value,
                low=None,
                high=None,
                says=says,
            )
        )
    if not rows:
        return None
    return Chart(
        title=title,
        hint=hint,
        svg=render_svg(bars(rows, unit="%", limit=100.0)),
        absent=_absent((entry, percent.reason) for entry, percent in told),
    )


def label_of(section: Section, entry: Entry) -> str:
    """The client's name in a chart, with a mark that does not need colour."""
    return f"★ {entry.summary.client}" if section.won(entry) else client_text(entry.summary)


def tone_of(section: Section, entry: Entry) -> Tone:
    """What the client is in its contest."""
    if section.won(entry):
        return Tone.WON
    return Tone.CONTESTANT if entry.summary.role is Role.CONTESTANT else Tone.REFERENCE


def words(name: str, form: TableForm, unit: str) -> str:
    """A figure's name for people, with the unit of its chart."""
    column = next((column for column in form.columns if column.figure == name), None)
    if column is not None:
        return column.heading
    named = name.replace("_", " ")
    if unit == "ratio" or (len(unit) > 1 and unit in named.split()):  # "server requests", and "time, s"
        return named
    return f"{named.removesuffix(f' {unit.lower()}')}, {unit}"


def _figure_chart(section: Section, name: str, form: TableForm, figures: FigureSet) -> Chart:
    unit, better = figures.units[name], _BETTER[figures.kinds[name].better]
    column = next((column for column in form.columns if column.figure == name), None)
    scale = 1 if column is None else column.scale
    shown = unit if column is None or scale == 1 else column.heading.rsplit(" ", 1)[-1]
    rows, reasons = [], []
    for entry in section.entries:
        figure = entry.summary.figures[name]
        if figure.median is None:
            reasons.append((entry, figure.reason))
            continue
        rows.append(_row(section, entry, figure, unit=shown, scale=scale))
    counts = sorted({len(row.values) for row in rows})
    repeats = plural(counts[0], "repeat") if counts[:1] == counts else f"{counts[0]} to {counts[-1]} repeats"
    title = words(name, form, shown)
    return Chart(
        title=title,
        hint="; ".join(part for part in (better, f"median of {repeats}") if part),
        svg=render_svg(dots(rows, unit=title)),
        absent=_absent(reasons),
    )


def _row(section: Section, entry: Entry, figure: FigureSummary, *, unit: str, scale: float) -> Row:
    label, interval, median = label_of(section, entry), figure.interval(), figure.median or 0.0
    between = (
        f"{interval.confidence:.1%} interval {number_text(interval.low, scale=scale)} to "
        f"{number_text(interval.high, scale=scale)}"
        if isinstance(interval, Interval)
        else f"no interval: {interval}"
    )
    middle = f"median {number_text(median, scale=scale)} {unit} of {plural(len(figure.by_repeat), 'repeat')}"
    return Row(
        label=label,
        tone=tone_of(section, entry),
        values=[
            (f"repeat {repeat}: {number_text(value, scale=scale)} {unit}", value * scale)
            for repeat, value in figure.by_repeat.items()
        ],
        median=median * scale,
        low=interval.low * scale if isinstance(interval, Interval) else None,
        high=interval.high * scale if isinstance(interval, Interval) else None,
        says=f"{label}{SEPARATOR}{middle}; {between}",
    )


def _has(section: Section, name: str) -> bool:
    return any(
        name in entry.summary.figures and entry.summary.figures[name].median is not None for entry in section.entries
    )


def _absent(found: Iterable[tuple[Entry, str | None]]) -> tuple[str, ...]:
    """Who has no figure, those of one reason together; who failed is told elsewhere."""
    clients: dict[str, list[str]] = {}
    for entry, reason in found:
        if reason is not None and entry.summary.status is not Status.FAILED:
            clients.setdefault(shortened(reason), []).append(entry.summary.client)
    return tuple(f"{', '.join(names)}: n/a: {reason}" for reason, names in clients.items())
