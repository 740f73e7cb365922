"""Figures over the values of a key, as a Vega-Lite description of their data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from bucketbench.report.html.encodings import SEPARATOR, says
from bucketbench.report.html.svg import WIDTH
from bucketbench.report.values import plain_text

__all__ = ["Curve", "Point", "are_amounts", "curves"]

_MIB: Final = 1 << 20
_LARGEST: Final = 1e15  # what is no less is a name, not an amount; so is what is no number at all
_LINES: Final = 8  # that colours and shapes can tell apart
_SHAPES: Final = (
    "circle",
    "square",
    "triangle-up",
    "diamond",
    "cross",
    "triangle-down",
    "triangle-right",
    "triangle-left",
)
_DASHES: Final = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [1, 0], [6, 3], [2, 2], [8, 3, 2, 3])


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """A figure at one value of a swept key: its median, and its least and greatest repeat.

    One that is marked has something to be doubted, which it says.
    """

    at: Any
    median: float
    low: float
    high: float
    says: str
    marked: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Curve:
    """A client over the values of a swept key."""

    label: str
    points: Sequence[Point]


def curves(
    found: Sequence[Curve], *, key: str, unit: str, order: Sequence[str] = (), width: int = WIDTH - 70
) -> dict[str, Any]:
    """A figure over the values of a swept key, a line a client and a bar from the least to the greatest repeat.

    Colours, shapes and dashes tell as many clients apart as there are colours that the colour-blind can tell; what
    follows is drawn in one faint colour.

    Args:
        found: the lines.
        key: what they are over.
        unit: of the figure, or its name with it.
        order: of the key's values, where these are words that every line may have some of.
        width: in pixels.
    """
    labels = [curve.label for curve in found]
    ats = [point.at for curve in found for point in curve.points]
    amounts = are_amounts(ats)
    scale, title = (_MIB, f"{key}, MiB") if key.endswith("_bytes") and amounts else (1, key)
    values = [
        {
            "label": curve.label,
            "at": point.at / scale if amounts else plain_text(point.at),
            "median": point.median,
            "low": point.low,
            "high": point.high,
            "says": point.says,
            "marked": point.marked,
            "line_says": f"{curve.label}{SEPARATOR}over {key}",
        }
        for curve in found
        for point in curve.points
    ]
    faint = max(len(labels) - _LINES, 0)
    colours = [f"var(--line-{number})" for number in range(1, _LINES + 1)][: len(labels)] + ["var(--rule)"] * faint
    told = {"field": "label", "type": "nominal", "sort": labels}
    legend = {"title": None, "orient": "bottom", "columns": 2, "values": labels[:_LINES]}
    colour = {**told, "scale": {"domain": labels, "range": colours}, "legend": legend}
    shape = {
        **told,
        "scale": {"domain": labels, "range": [*_SHAPES[: len(labels)], *[_SHAPES[0]] * faint]},
        "legend": legend,
    }
    dash = {
        **told,
        "scale": {"domain": labels, "range": [*_DASHES[: len(labels)], *[[1, 3]] * faint]},
        "legend": legend,
    }
    x = _swept([at / scale if amounts else at for at in ats], title, order)
    y = {"field": "median", "type": "quantitative", "scale": {"zero": True}, "axis": {"title": unit}}
    return {
        "data": {"values": values},
        "width": width,
        "height": 240,
        "layer": [
            {
                "mark": {"type": "rule", "strokeWidth": 1.5, "opacity": 0.6, "aria": False},
                "encoding": {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}, "color": colour},
            },
            {
                "mark": {"type": "line", "strokeWidth": 2},
                "encoding": {
                    "x": x,
                    "y": y,
                    "color": colour,
                    "strokeDash": dash,
                    "description": {"field": "line_says", "type": "nominal"},
                },
            },
            {
                "mark": {"type": "point", "size": 60, "filled": True, "opacity": 1},
                "encoding": {"x": x, "y": y, "color": colour, "shape": shape, **says()},
            },
            *([_rings(x, y)] if any(one["marked"] for one in values) else []),
        ],
    }


def _rings(x: dict[str, Any], y: dict[str, Any]) -> dict[str, Any]:
    """A ring around each point that is marked."""
    return {
        "transform": [{"filter": "datum.marked"}],
        "mark": {
            "type": "point",
            "shape": "circle",
            "size": 220,
            "filled": False,
            "stroke": "var(--doubt-edge)",
            "strokeWidth": 2,
            "aria": False,
        },
        "encoding": {"x": x, "y": y},
    }


def _swept(ats: Sequence[Any], key: str, order: Sequence[str]) -> dict[str, Any]:
    if not are_amounts(ats):
        words = list(order or dict.fromkeys(map(plain_text, ats)))
        named: dict[str, Any] = {"title": key, "labelAngle": -35 if order else 0, "grid": False}
        return {"field": "at", "type": "ordinal", "sort": words, "axis": named}
    numbers = sorted({float(at) for at in ats})
    axis = {"title": key, "grid": False, "values": numbers if len(numbers) <= 10 else None, "labelOverlap": True}
    doubling = numbers[0] > 0 and numbers[-1] / numbers[0] >= 8
    scale = {"type": "log", "base": 2, "nice": False, "padding": 14} if doubling else {"zero": False, "padding": 14}
    return {"field": "at", "type": "quantitative", "scale": scale, "axis": {**axis, "format": ",~f"}}


def are_amounts(values: Sequence[Any]) -> bool:
    """Whether values of a key are numbers that have a place on an axis, each one of its own."""
    are_numbers = all(
        isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _LARGEST for value in values
    )
    return are_numbers and len({float(value) for value in values}) == len({repr(value) for value in values})
