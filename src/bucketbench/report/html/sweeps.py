"""Figures over the keys that a run sweeps: how a client scales."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from bucketbench.report.cells import mark_text, number_text
from bucketbench.report.html.encodings import SEPARATOR
from bucketbench.report.html.figures import Chart, words
from bucketbench.report.html.over_keys import Curve, Point, are_amounts, curves
from bucketbench.report.html.svg import render_svg
from bucketbench.report.runs import Run
from bucketbench.report.sections import Section
from bucketbench.report.swept import SweptPoint, bound_keys, swept_points
from bucketbench.report.wording import plural, reasons_text
from bucketbench.scenarios.presentation import TableForm
from bucketbench.statistics import FigureSet

__all__ = ["Axis", "axes"]

_MOST_CHARTS: Final = 6  # of an axis; the table has the rest


@dataclass(frozen=True, kw_only=True, slots=True)
class Axis:
    """A key that the run sweeps.

    Args:
        key: its dotted name.
        charts: one a figure and a set of the other keys' values.
        left_out: how many more there would be.
    """

    key: str
    charts: tuple[Chart, ...]
    left_out: int


def axes(run: Run, sections: Sequence[Section], form: TableForm, figures: FigureSet) -> list[Axis]:
    """An axis for every key with several values: parameters, and options of clients.

    Args:
        run: of one scenario.
        sections: its.
        form: of the scenario.
        figures: likewise; those by which clients are compared are drawn.
    """
    found = swept_points(run, sections)
    keys = list(dict.fromkeys(key for one in found for key in one.keys))
    drawn: list[Axis] = []
    for key in keys:
        if key in {earlier for axis in drawn for earlier in bound_keys(axis.key, keys, found)}:
            continue  # it changes with a key that has been drawn, and would be the same curve again
        axis = _axis(key, found, form, figures, together=bound_keys(key, keys, found))
        if axis.charts:
            drawn.append(axis)
    return drawn


def _axis(
    key: str, found: Sequence[SweptPoint], form: TableForm, figures: FigureSet, *, together: Sequence[str]
) -> Axis:
    panes: dict[str, list[SweptPoint]] = {}
    for one in found:
        if key in one.keys:
            told = [
                f"{name}={text}"
                for name, text in one.told.items()
                if name not in (key, *together) and not _of_client(name)
            ]
            panes.setdefault(" ".join(told), []).append(one)
    charts = []
    for figure in figures.contests:
        for others, inside in panes.items():
            chart = _chart(key, figure, others, inside, form, figures)
            if chart is not None:
                charts.append(chart)
    return Axis(key=key, charts=tuple(charts[:_MOST_CHARTS]), left_out=max(len(charts) - _MOST_CHARTS, 0))


def _chart(
    key: str,
    figure: str,
    others: str,
    inside: Sequence[SweptPoint],
    form: TableForm,
    figures: FigureSet,
) -> Chart | None:
    unit = figures.units[figure]
    amounts = are_amounts([one.keys[key] for one in inside])
    lines: dict[str, list[Point]] = {}
    for one in inside:
        summary = one.summary.figures[figure]
        if summary.median is None:
            continue
        label = _label(one, key)
        values = list(summary.by_repeat.values())
        mark = mark_text(one.summary)
        says = (
            f"{label}{SEPARATOR}{key}={one.told[key]}: median {number_text(summary.median)} {unit} of "
            f"{plural(len(values), 'repeat')}, {number_text(min(values))} to {number_text(max(values))}"
            f"{f'; {mark}: {reasons_text(one.summary)}' if mark else ''}"
        )
        lines.setdefault(label, []).append(
            Point(
                at=one.keys[key] if amounts else one.told[key],
                median=summary.median,
                low=min(values),
                high=max(values),
                says=says,
                marked=bool(mark),
            )
        )
    if max((len({repr(point.at) for point in points}) for points in lines.values()), default=0) < 2:
        return None
    place = figures.kinds[figure].better.place
    best = sorted(lines, key=lambda label: min(place(point.median) for point in lines[label]))
    hint = f"with {others}" if others else "median; the bars go from the least to the greatest repeat"
    if any(point.marked for points in lines.values() for point in points):
        hint += "; what has a ring has repeats that failed, or are doubtful or invalid"
    title = f"{words(figure, form, unit)} over {key}"
    return Chart(
        title=title,
        hint=hint,
        svg=render_svg(
            curves([Curve(label=label, points=lines[label]) for label in best], key=key, unit=words(figure, form, unit))
        ),
    )


def _of_client(key: str) -> bool:
    return key.startswith("client.")


def _label(one: SweptPoint, key: str) -> str:
    told = [
        f"{name.removeprefix('client.').removeprefix('options.')}={text}"
        for name, text in one.told.items()
        if _of_client(name) and name != key
    ]
    return f"{one.client} ({', '.join(told)})" if told else one.client
