"""Values over time, as a Vega-Lite description of their data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from bucketbench.report.html.encodings import Tone, says, tone
from bucketbench.report.html.svg import WIDTH

__all__ = ["Line", "time_lines"]

_PANE_PX: Final = 44


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """One line over time of a client: seconds and values, None where it is interrupted; ``says`` tells which."""

    label: str
    tone: Tone
    points: Sequence[tuple[float, float | None]]
    says: str


def time_lines(lines: Sequence[Line], *, unit: str) -> dict[str, Any]:
    """Values over time, a pane a client and in it a line a repeat, all panes with the same scales."""
    values = [
        {"label": line.label, "tone": line.tone, "line": number, "at": at, "value": value, "says": line.says}
        for number, line in enumerate(lines)
        for at, value in line.points
    ]
    labels = list(dict.fromkeys(line.label for line in lines))
    return {
        "data": {"values": values},
        "facet": {
            "row": {
                "field": "label",
                "type": "nominal",
                "sort": labels,
                "title": None,
                "header": {"labelOrient": "top", "labelAnchor": "start", "labelPadding": 3},
            }
        },
        "spacing": 8,
        "spec": {
            "width": WIDTH - 60,
            "height": _PANE_PX,
            "mark": {"type": "line", "strokeWidth": 1.4, "opacity": 0.75},
            "encoding": {
                "x": {
                    "field": "at",
                    "type": "quantitative",
                    "scale": {"domainMin": 0, "nice": False},
                    "axis": {"title": "s", "tickCount": 5, "grid": False},
                },
                "y": {
                    "field": "value",
                    "type": "quantitative",
                    "scale": {"zero": True},
                    "axis": {"title": None, "tickCount": 2, "format": ",~f"},
                },
                "detail": {"field": "line"},
                "color": tone(),
                **says(),
            },
        },
        "description": f"over time, in {unit}",
    }
