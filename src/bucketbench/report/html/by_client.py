"""Charts with a row for each client, as Vega-Lite descriptions of their data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bucketbench.report.html.encodings import SEPARATOR, Tone, says, tone, tone_shape
from bucketbench.report.html.svg import WIDTH

__all__ = ["Row", "Strip", "bars", "dots", "strips"]

_ROW_PX: Final = 24
_LOGARITHMIC_FROM: Final = 30.0  # times that the largest value is the smallest


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One client in a chart of a figure.

    Args:
        label: its name, as the table has it.
        tone: what it is.
        values: text that tells a repeat, and the repeat's value.
        median: of the values.
        low: where the median's interval begins, None where there is none.
        high: where it ends.
        says: the whole row in words.
    """

    label: str
    tone: Tone
    values: Sequence[tuple[str, float]]
    median: float
    low: float | None
    high: float | None
    says: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Strip:
    """One client in a chart of durations: every one of them, or where there are many their percentiles."""

    label: str
    tone: Tone
    values: Sequence[float]
    p5: float
    p25: float
    p50: float
    p75: float
    p95: float
    largest: float
    says: str


def dots(rows: Sequence[Row], *, unit: str) -> dict[str, Any]:
    """A figure by client: a dot a repeat, a bar for the median's interval, a stroke for the median."""
    each = [
        {**_known(row), "value": value, "says": f"{row.label}{SEPARATOR}{text}"}
        for row in rows
        for text, value in row.values
    ]
    middle = [{**_known(row), "value": row.median, "says": row.says} for row in rows]
    spans = [
        {**_known(row), "low": row.low, "high": row.high, "says": row.says}
        for row in rows
        if row.low is not None and row.high is not None
    ]
    y, colour = _clients(rows), tone()
    return _chart(
        rows,
        [
            {
                "data": {"values": spans},
                "mark": {"type": "bar", "height": 10, "opacity": 0.3, "cornerRadius": 2},
                "encoding": {"x": _x("low", unit), "x2": {"field": "high"}, "y": y, "color": colour, **says()},
            },
            {
                "data": {"values": each},
                "mark": {"type": "point", "size": 34, "strokeWidth": 1.4, "opacity": 0.85},
                "encoding": {"x": _x("value", unit), "y": y, "color": colour, "shape": tone_shape(), **says()},
            },
            {
                "data": {"values": middle},
                "mark": {"type": "tick", "thickness": 3, "size": 16},
                "encoding": {"x": _x("value", unit), "y": y, "color": colour, **says()},
            },
        ],
    )


def bars(rows: Sequence[Row], *, unit: str, limit: float) -> dict[str, Any]:
    """A figure by client beside a limit, as a bar and a rule."""
    values = [{**_known(row), "value": row.median, "says": row.says} for row in rows]
    y = _clients(rows)
    return _chart(
        rows,
        [
            {
                "data": {"values": values},
                "mark": {"type": "bar", "height": 12, "cornerRadiusEnd": 2},
                "encoding": {"x": {**_x("value", unit), "stack": None}, "y": y, "color": tone(), **says()},
            },
            {
                "data": {"values": [{"limit": limit}]},
                "mark": {"type": "rule", "color": "var(--text)", "strokeDash": [4, 3], "aria": False},
                "encoding": {"x": _x("limit", unit)},
            },
        ],
    )


def strips(rows: Sequence[Strip], *, unit: str) -> dict[str, Any]:
    """Durations by client. Few are drawn one by one; of many the 5th to 95th percentile, the quartiles, the maximum."""
    scale = _spread_scale([value for row in rows for value in (row.p5, row.largest)])
    y, colour = _clients(rows), tone()
    each = [
        {**_known(row), "value": value, "says": f"{row.label}{SEPARATOR}{value:.4g} {unit}"}
        for row in rows
        for value in row.values
    ]
    many = [
        {
            **_known(row),
            "says": row.says,
            **{name: getattr(row, name) for name in ("p5", "p25", "p50", "p75", "p95", "largest")},
        }
        for row in rows
    ]
    whole = [one for one, row in zip(many, rows, strict=True) if not row.values]
    return _chart(
        rows,
        [
            {
                "data": {"values": whole},
                "mark": {"type": "rule", "strokeWidth": 2},
                "encoding": {"x": _x("p5", unit, scale), "x2": {"field": "p95"}, "y": y, "color": colour, **says()},
            },
            {
                "data": {"values": whole},
                "mark": {"type": "bar", "height": 11, "opacity": 0.55, "cornerRadius": 2},
                "encoding": {"x": _x("p25", unit, scale), "x2": {"field": "p75"}, "y": y, "color": colour, **says()},
            },
            {
                "data": {"values": whole},
                "mark": {"type": "point", "shape": "cross", "size": 30, "angle": 45},
                "encoding": {"x": _x("largest", unit, scale), "y": y, "color": colour, **says()},
            },
            {
                "data": {"values": each},
                "mark": {"type": "point", "size": 34, "strokeWidth": 1.4, "opacity": 0.85},
                "encoding": {"x": _x("value", unit, scale), "y": y, "color": colour, **says()},
            },
            {
                "data": {"values": many},
                "mark": {"type": "tick", "thickness": 3, "size": 16},
                "encoding": {"x": _x("p50", unit, scale), "y": y, "color": colour, **says()},
            },
        ],
    )


def _chart(rows: Sequence[Row] | Sequence[Strip], layers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    drawn = [layer for layer in layers if layer["data"]["values"]]
    return {
        "width": WIDTH,
        "height": max(len(rows), 1) * _ROW_PX,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "layer": drawn,
    }


def _known(row: Row | Strip) -> dict[str, Any]:
    return {"label": row.label, "tone": row.tone}


def _clients(rows: Sequence[Row] | Sequence[Strip]) -> dict[str, Any]:
    labels = [row.label for row in rows]
    return {
        "field": "label",
        "type": "nominal",
        "sort": labels,
        "scale": {"domain": labels},
        "axis": {"title": None, "ticks": False, "domain": False, "grid": True, "labelPadding": 6},
    }


def _x(field: str, unit: str, scale: Mapping[str, Any] | None = None) -> dict[str, Any]:
    logarithmic = scale is not None and scale["type"] == "log"
    # A rule a power of ten: at every tenth of one, as is the default, they would hide the marks.
    ticks = {"values": [10.0**power for power in range(-4, 8)]} if logarithmic else {"tickCount": 4}
    return {
        "field": field,
        "type": "quantitative",
        "scale": scale or {"type": "linear", "zero": True, "nice": True},
        "axis": {"title": unit, "grid": True, **ticks},
    }


def _spread_scale(values: Sequence[float]) -> dict[str, Any]:
    """Logarithmic where the slowest is many times the fastest, else from zero."""
    least, most = min(values, default=0.0), max(values, default=0.0)
    if least > 0 and most / least >= _LOGARITHMIC_FROM:
        return {"type": "log", "nice": False}
    return {"type": "linear", "zero": True, "nice": True}
