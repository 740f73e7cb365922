"""The table as JSON values, for programs. The names here are an interface: new ones may come, none may change."""

from __future__ import annotations

from typing import Any

from bucketbench.report.runs import Run
from bucketbench.report.sections import Entry, Section, arrange
from bucketbench.statistics import MINIMUM_REPEATS, Comparison, FigureSummary, Summary

__all__ = ["json_rows"]

_MEDIANS = (
    "throughput_mibs",
    "samples_per_s",
    "latency_p50_s",
    "latency_p95_s",
    "latency_p99_s",
    "time_to_first_batch_s",
    "cpu_s_per_gib",
    "peak_rss_mib",
    "read_amplification",
)


def json_rows(run: Run) -> list[dict[str, Any]]:
    """One object a client and parameter set.

    A value that could not be measured is None, and ``<name>_reason`` beside it says why; where there is a value there
    is no such name. ``errors`` is the sum over the repeats; the other figures are medians of the repeats that
    succeeded. ``throughput_mibs_spread`` is the greatest distance of a repeat from the median.

    Raises:
        IncomparableError: where jobs of the run cannot be put together.
    """
    return [_row(entry, section) for section in arrange(run) for entry in section.entries]


def _row(entry: Entry, section: Section) -> dict[str, Any]:
    summary = entry.summary
    throughput = summary.figures["throughput_mibs"]
    row: dict[str, Any] = {
        "scenario": summary.scenario,
        "client": summary.client,
        "role": str(summary.role),
        "parameters": dict(summary.parameters),
        "repeats": summary.repeats,
        "repeats_failed": len(summary.failures),
        "status": str(summary.status),
        "failures": list(summary.failures),
    }
    for name in _MEDIANS:
        row |= _value(name, summary.figures[name].median, summary.figures[name].reason)
    row |= _value("throughput_mibs_spread", throughput.spread, _few_reason(throughput, 2))
    interval = throughput.interval()
    row |= _value(
        "throughput_mibs_interval",
        None if interval is None else {"low": interval.low, "high": interval.high, "confidence": interval.confidence},
        _few_reason(throughput, MINIMUM_REPEATS),
    )
    row |= _value("errors", None if summary.errors.value is None else int(summary.errors.value), summary.errors.reason)
    row |= _value("percent_of_ceiling", entry.percent_of_ceiling.value, entry.percent_of_ceiling.reason)
    row["won"] = section.contest.winner is summary
    row |= _value("margin", *_margin(summary, section))
    return row


def _few_reason(figure: FigureSummary, needed: int) -> str:
    return figure.reason or f"it needs {needed} repeats, {len(figure.by_repeat)} succeeded"


def _margin(summary: Summary, section: Section) -> tuple[dict[str, Any] | None, str]:
    contest = section.contest
    if not contest.ranking or contest.ranking[0] is not summary:
        return None, "only the contestant with the highest throughput has a margin"
    if contest.margin is None:
        return None, "no other contestant succeeded in all its repeats"
    return _comparison(contest.margin), ""


def _comparison(comparison: Comparison) -> dict[str, Any]:
    interval = comparison.interval
    return {
        "over": comparison.denominator,
        "ratio": comparison.ratio,
        "low": None if interval is None else interval.low,
        "high": None if interval is None else interval.high,
        "confidence": None if interval is None else interval.confidence,
        "paired": comparison.paired,
        "decided": comparison.decided,
        **({} if interval else {"interval_reason": f"it needs {MINIMUM_REPEATS} repeats, got {comparison.repeats}"}),
    }


def _value(name: str, value: Any, reason: str | None) -> dict[str, Any]:
    return {name: value} if value is not None else {name: None, f"{name}_reason": reason}
