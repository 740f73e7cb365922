"""The columns of the table and what stands in them, for every form in which it is printed."""

from __future__ import annotations

from collections.abc import Sequence

from bucketbench.report.sections import Entry, Section
from bucketbench.statistics import FigureSummary, Status

__all__ = ["LEGEND", "NOT_AVAILABLE", "columns", "texts"]

NOT_AVAILABLE = "n/a"

LEGEND = (
    "Medians over the repeats; ± is the greatest distance of a repeat from the median. p50 and p95 are of the fetch of "
    "one batch, without decoding."
)

_COLUMNS = ("client", "MiB/s", "samples/s", "p50 ms", "p95 ms", "CPU s/GiB", "peak RSS MiB", "errors", "status")
_CEILING = "ceiling %"


def columns(sections: Sequence[Section]) -> tuple[str, ...]:
    """The headings of the columns; the percentage of the ceiling is one where a ceiling was measured."""
    if any(entry.percent_of_ceiling.value is not None for section in sections for entry in section.entries):
        return (*_COLUMNS[:2], _CEILING, *_COLUMNS[2:])
    return _COLUMNS


def texts(entry: Entry, headings: Sequence[str]) -> list[str]:
    """What stands in the row of a client, in the order of the headings."""
    figures = entry.summary.figures
    texts_by_heading = {
        "client": entry.summary.client + ("" if entry.summary.role.competes else f" ({entry.summary.role})"),
        "MiB/s": _with_spread(figures["throughput_mibs"]),
        _CEILING: _number(entry.percent_of_ceiling.value),
        "samples/s": _number(figures["samples_per_s"].median),
        "p50 ms": _number(figures["latency_p50_s"].median, scale=1000),
        "p95 ms": _number(figures["latency_p95_s"].median, scale=1000),
        "CPU s/GiB": _number(figures["cpu_s_per_gib"].median),
        "peak RSS MiB": _number(figures["peak_rss_mib"].median),
        "errors": NOT_AVAILABLE if entry.summary.errors.value is None else f"{entry.summary.errors.value:.0f}",
        "status": _status(entry),
    }
    return [texts_by_heading[heading] for heading in headings]


def _status(entry: Entry) -> str:
    summary = entry.summary
    if summary.status is Status.PARTIAL:
        return f"{len(summary.failures)}/{summary.repeats} failed"
    return str(summary.status)


def _with_spread(figure: FigureSummary) -> str:
    spread = figure.spread
    return _number(figure.median) + ("" if spread is None else f" ± {_number(spread)}")


def _number(value: float | None, *, scale: float = 1) -> str:
    """Three digits that count, or all before the point."""
    if value is None:
        return NOT_AVAILABLE
    scaled = value * scale
    if scaled == 0:
        return "0"
    if abs(scaled) >= 99.95:
        return f"{scaled:,.0f}"
    return f"{scaled:.1f}" if abs(scaled) >= 9.995 else f"{scaled:.2f}"
