"""Draws a simulation: figures over the number of ranks, both on logarithmic scales, as an SVG without any script."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final
from xml.etree import ElementTree

from bucketbench.scale.simulation import Outcome

__all__ = ["draw"]

_WIDTH, _HEIGHT = 420.0, 300.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 64.0, 26.0, 40.0, 44.0
# Told apart by the colour-blind, and by their dashes in print. Source: Okabe and Ito, "Color Universal Design", 2008.
_STYLES: Final = (("#0072B2", ""), ("#D55E00", "7 4"), ("#009E73", "2 3"), ("#CC79A7", "9 3 2 3"))
_GRID: Final = ("#dddddd", "", "1")
_FEWEST_DECADES: Final = 1
_ACROSS: Final = 2  # pictures side by side
_MIB: Final = 1 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class _Panel:
    """One of the pictures.

    Args:
        title: what it shows, and in which unit.
        value: of an outcome.
        limit: a second value, drawn as the bound of the first.
    """

    title: str
    value: Callable[[Outcome], float]
    limit: Callable[[Outcome], float] | None = None


def draw(outcomes: Sequence[Outcome], currency: str) -> str:
    """Pictures of requests a second against the limit, of time, cost and memory, each with a line for each operation.

    Args:
        outcomes: of operations, each with several numbers of ranks.
        currency: of the cost.

    Returns:
        The SVG document.
    """
    panels = (
        _Panel(
            title="part of the service's request limit that is asked for",
            value=lambda one: one.demand.share,
            limit=lambda _: 1.0,
        ),
        _Panel(title="seconds, at least", value=lambda one: one.seconds),
        _Panel(title=f"{currency} for requests and transfer", value=lambda one: one.cost),
        _Panel(title="MiB of memory, of the process that needs most", value=_memory_mib),
    )
    lines = [list(group) for _, group in groupby(outcomes, key=lambda one: one.operation.name)]
    legend_height = 20.0 * len(lines) + 8
    bottom = _HEIGHT * -(-len(panels) // _ACROSS)
    width, height = _WIDTH * _ACROSS, bottom + legend_height
    root = ElementTree.Element(
        "svg",
        {
            "xmlns": "http://www.w3.org/2000/svg",
            "viewBox": f"0 0 {width:g} {height:g}",
            "width": f"{width:g}",
            "height": f"{height:g}",
            "font-family": "sans-serif",
            "font-size": "12",
            "role": "img",
        },
    )
    ElementTree.SubElement(root, "title").text = "; ".join(panel.title for panel in panels)
    _add(root, "rect", width=width, height=height, fill="#ffffff")
    for number, panel in enumerate(panels):
        row, column = divmod(number, _ACROSS)
        place = f"translate({column * _WIDTH:g} {row * _HEIGHT:g})"
        _draw_panel(_add(root, "g", transform=place), panel, lines)
    for number, line in enumerate(lines):
        y = bottom + 14 + 20.0 * number
        _path(root, [(_LEFT, y), (_LEFT + 40, y)], *_STYLES[number % len(_STYLES)])
        _text(root, _LEFT + 50, y + 4, line[0].operation.name)
    ElementTree.indent(root, " ")
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def _memory_mib(one: Outcome) -> float:
    return max(one.operation.memory.values(), default=0.0) / _MIB


def _draw_panel(parent: ElementTree.Element, panel: _Panel, lines: Sequence[Sequence[Outcome]]) -> None:
    limit = panel.limit
    values = [panel.value(one) for line in lines for one in line]
    values += [] if limit is None else [limit(one) for line in lines for one in line]
    positive = [value for value in values if value > 0] or [1.0]
    across = _Axis([float(one.ranks) for line in lines for one in line], _LEFT, _WIDTH - _RIGHT)
    up = _Axis(positive, _HEIGHT - _BOTTOM, _TOP)
    _text(parent, _LEFT, 20, panel.title, weight="bold")
    for tick in up.ticks():
        _path(parent, [(_LEFT, up.place(tick)), (_WIDTH - _RIGHT, up.place(tick))], *_GRID)
        _text(parent, _LEFT - 6, up.place(tick) + 4, _label(tick), anchor="end")
    for tick in across.ticks():
        x = across.place(tick)
        _path(parent, [(x, _TOP), (x, _HEIGHT - _BOTTOM)], *_GRID)
        _text(parent, x, _HEIGHT - _BOTTOM + 18, _label(tick), anchor="middle")
    _text(parent, (_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 8, "ranks", anchor="middle")
    if limit is not None:
        bound = [(across.place(one.ranks), up.place(limit(one))) for one in lines[0]]
        _path(parent, bound, "#000000", "4 4")
    for number, line in enumerate(lines):
        points = [(across.place(one.ranks), up.place(panel.value(one))) for one in line if panel.value(one) > 0]
        colour, dashes = _STYLES[number % len(_STYLES)]
        _path(parent, points, colour, dashes)
        for x, y in points:
            _add(parent, "circle", cx=x, cy=y, r=3.5, fill=colour)


class _Axis:
    """A logarithmic scale that whole decades bound.

    Args:
        values: all above 0.
        start: where the lowest decade is.
        stop: where the highest is.
    """

    def __init__(self, values: Sequence[float], start: float, stop: float) -> None:
        self._low = math.floor(math.log10(min(values)) + 1e-9)
        self._high = max(math.ceil(math.log10(max(values)) - 1e-9), self._low + _FEWEST_DECADES)
        self._start, self._stop = start, stop

    def place(self, value: float) -> float:
        """Where a value is."""
        share = (math.log10(value) - self._low) / (self._high - self._low)
        return self._start + share * (self._stop - self._start)

    def ticks(self) -> list[float]:
        """The decades, or every second one where there are many."""
        step = 1 + (self._high - self._low) // 8
        return [10.0**power for power in range(self._low, self._high + 1, step)]


def _label(value: float) -> str:
    return f"{value:,.0f}" if 1 <= value < 1e6 else f"{value:g}"


def _path(
    parent: ElementTree.Element, points: Sequence[tuple[float, float]], colour: str, dashes: str, width: str = "2"
) -> None:
    if points:
        steps = " L ".join(f"{x:.1f} {y:.1f}" for x, y in points)
        drawn = {"stroke-width": width} | ({"stroke-dasharray": dashes} if dashes else {})
        _add(parent, "path", d=f"M {steps}", fill="none", stroke=colour, **drawn)


def _text(
    parent: ElementTree.Element, x: float, y: float, text: str, *, anchor: str = "start", weight: str = "normal"
) -> None:
    element = _add(parent, "text", x=x, y=y, **{"text-anchor": anchor, "font-weight": weight})
    element.text = text


def _add(parent: ElementTree.Element, name: str, **attributes: float | str) -> ElementTree.Element:
    texts = {key: value if isinstance(value, str) else f"{value:.1f}" for key, value in attributes.items()}
    return ElementTree.SubElement(parent, name, texts)
