"""The table as JSON values, for programs. The names here are an interface: new ones may come, none may change."""

from __future__ import annotations

from typing import Any

from bucketbench.report.runs import Run
from bucketbench.report.sections import Entry, Section, arrange
from bucketbench.scenarios import table_of
from bucketbench.scenarios.presentation import TableForm
from bucketbench.statistics import MINIMUM_REPEATS, Comparison, FigureSummary, Summary

__all__ = ["json_rows"]


def json_rows(run: Run) -> list[dict[str, Any]]:
    """One object a client and parameter set.

    A value that could not be measured is None, and ``<name>_reason`` beside it says why; where there is a value there
    is no such name. ``errors`` is the sum over the repeats; the other figures are medians of the repeats that
    succeeded. ``<name>_spread`` is the greatest distance of a repeat from the median, ``<name>_interval`` that of the
    bootstrap.

    Raises:
        IncomparableError: where jobs of the run cannot be put together.
    """
    form = table_of(run.scenario)
    return [_row(entry, section, form) for section in arrange(run) for entry in section.entries]


def _row(entry: Entry, section: Section, form: TableForm) -> dict[str, Any]:
    summary = entry.summary
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
    for name in form.medians:
        row |= _value(name, summary.figures[name].median, summary.figures[name].reason)
    for name in form.spreads:
        row |= _spread(name, summary.figures[name])
    row |= _value("errors", None if summary.errors.value is None else int(summary.errors.value), summary.errors.reason)
    row |= _value("percent_of_ceiling", entry.percent_of_ceiling.value, entry.percent_of_ceiling.reason)
    row["won"] = section.contest.winner is summary
    row |= _value("margin", *_margin(summary, section))
    return row


def _spread(name: str, figure: FigureSummary) -> dict[str, Any]:
    interval = figure.interval()
    return _value(f"{name}_spread", figure.spread, _few_reason(figure, 2)) | _value(
        f"{name}_interval",
        None if interval is None else {"low": interval.low, "high": interval.high, "confidence": interval.confidence},
        _few_reason(figure, MINIMUM_REPEATS),
    )


def _few_reason(figure: FigureSummary, needed: int) -> str:
    return figure.reason or f"it needs {needed} repeats, {len(figure.by_repeat)} succeeded"


def _margin(summary: Summary, section: Section) -> tuple[dict[str, Any] | None, str]:
    contest = section.contest
    if not contest.ranking or contest.ranking[0] is not summary:
        return None, "only the first of the contestants has a margin"
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
