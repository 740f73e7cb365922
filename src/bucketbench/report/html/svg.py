"""A Vega-Lite description of a chart as SVG that takes its colours from the page, so that it needs no script there."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from bucketbench.errors import ResultsError, UsageError
from bucketbench.extras import installation

__all__ = ["WIDTH", "render_svg"]

WIDTH: Final = 420
"""Width of a chart, in pixels; the page makes it narrower where it must."""

_SCHEMA: Final = "https://vega.github.io/schema/vega-lite/v6.json"  # a name; nothing is fetched

# The page defines these for light and for dark.
_TEXT, _FAINT, _RULE = "var(--muted)", "var(--grid)", "var(--rule)"

_CONFIG: Final[Mapping[str, Any]] = {
    "background": "transparent",
    "font": "sans-serif",
    "view": {"stroke": None},
    "axis": {
        "labelColor": "var(--text)",
        "titleColor": _TEXT,
        "gridColor": _FAINT,
        "domainColor": _RULE,
        "tickColor": _RULE,
        "labelFontSize": 13,
        "titleFontSize": 13,
        "titleFontWeight": "normal",
        "labelLimit": 185,
        "titleLimit": 260,
        "labelOverlap": "greedy",
        "labelSeparation": 8,
    },
    "legend": {"labelColor": "var(--text)", "labelFontSize": 13, "labelLimit": 200, "symbolSize": 70},
    "header": {"labelColor": "var(--text)", "labelFontSize": 13, "labelLimit": WIDTH - 60},
}

_LONG_NUMBER: Final = re.compile(r"-?\d+\.\d{3,}(?:e-?\d+)?")
_PLACE: Final = re.compile(r'(?<=\s)(?:d|transform|x|y|x1|x2|y1|y2|width|height)="[^"<>]*"')


def render_svg(description: Mapping[str, Any]) -> str:
    """Draw a chart.

    Args:
        description: in Vega-Lite, with its data inline; text of the data is escaped.

    Returns:
        An ``svg`` element for a page that defines the colours' variables. Each mark says in ``aria-label`` what it is.

    Raises:
        UsageError: the package that draws is not installed.
        ResultsError: it could not draw this.
    """
    try:
        import vl_convert
    except ImportError as error:
        raise UsageError(
            f"an HTML report needs what draws its charts, which is not installed: {installation('report')}"
        ) from error
    try:
        svg: str = vl_convert.vegalite_to_svg({"$schema": _SCHEMA, "config": _CONFIG, **description})
    except ValueError as error:
        raise ResultsError(f"a chart of the report could not be drawn: {error}") from error
    return _PLACE.sub(lambda place: _LONG_NUMBER.sub(_rounded, place.group()), svg)


def _rounded(number: re.Match[str]) -> str:
    """Hundredths of a pixel are enough, and half the size."""
    return f"{float(number.group()):.2f}".rstrip("0").rstrip(".")
