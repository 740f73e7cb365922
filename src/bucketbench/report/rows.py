"""The table as JSON values, for programs. The names here are an interface: new ones may come, none may change."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from bucketbench.report.costs import form_of, prices_of
from bucketbench.report.runs import Run, versions_of
from bucketbench.report.sections import Entry, Section, arrange
from bucketbench.results.job import JobResult
from bucketbench.scenarios.presentation import TableForm
from bucketbench.statistics import Comparison, Contest, FigureSummary, Interval

__all__ = ["json_rows"]


def json_rows(run: Run) -> list[dict[str, Any]]:
    """One object a client and parameter set.

    ``run``, ``started_at``, ``label``, ``disambiguator`` and ``commit`` are those of its run, ``versions`` those of its
    jobs, by package. A value that is not there is None, and ``<name>_reason`` beside it says why; where there is a
    value there is no such name. ``errors`` is the sum over the repeats; the other figures are medians of the repeats
    that succeeded. ``<name>_spread`` is the greatest distance of a repeat from the median, ``<name>_interval`` where
    the median of many more repeats lies. ``validity`` is ``valid``, ``doubtful`` or ``invalid``, and ``marks`` has the
    rules that repeats broke, with the reason. ``cost_per_<work>`` is in the currency of ``prices``. The first of each
    style of data set has its ``margin`` over the second, and over the best of another library as
    ``margin_over_other_library``.

    Raises:
        IncomparableError: where jobs of the run cannot be put together.
    """
    form = form_of(run)
    of_run = {
        "run": run.name,
        **_value("started_at", run.started_at, "the results do not have it"),
        **_value("label", run.label, "none was given"),
        **_value("disambiguator", run.disambiguator, "none was given"),
        **_value("commit", run.commit, "it was not run from a repository"),
        **({} if run.pricing is None else {"prices": prices_of(run, run.pricing)}),
    }
    results: dict[str, list[JobResult]] = {}
    for job, result in zip(run.jobs, run.results, strict=True):
        results.setdefault(job.client, []).append(result)
    return [
        of_run | {"versions": versions_of(results[entry.summary.client])} | _row(entry, section, form)
        for section in arrange(run)
        for entry in section.entries
    ]


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
        "marks": [asdict(mark) for mark in summary.marks],
        "details": dict(summary.details),
    }
    state = None if summary.state is None else str(summary.state)
    row |= _value("validity", state, "no repeat succeeded, or the version that recorded them did not judge it")
    row |= _value("library", summary.library, "the client's configuration names no package")
    for name in form.medians:
        row |= _value(name, summary.figures[name].median, summary.figures[name].reason)
    for name in form.spreads:
        row |= _spread(name, summary.figures[name])
    row |= _value("errors", None if summary.errors.value is None else int(summary.errors.value), summary.errors.reason)
    row |= _value("percent_of_ceiling", entry.percent_of_ceiling.value, entry.percent_of_ceiling.reason)
    row |= _value("percent_of_network", entry.percent_of_network.value, entry.percent_of_network.reason)
    row |= _value("percent_of_concurrency", entry.percent_of_concurrency.value, entry.percent_of_concurrency.reason)
    row["won"] = section.won(entry)
    deciding = section.contests[0].figure
    for figure in dict.fromkeys(contest.figure for contest in section.contests):
        first = next((c for c in section.contests if c.figure == figure and c.ranking[:1] == [summary]), None)
        row |= _margins(first, prefix="" if figure == deciding else f"{figure}_")
    return row


def _spread(name: str, figure: FigureSummary) -> dict[str, Any]:
    interval = figure.interval()
    few = figure.reason or f"it needs 2 repeats, {len(figure.by_repeat)} succeeded"
    return _value(f"{name}_spread", figure.spread, few) | (
        _value(f"{name}_interval", asdict(interval), None)
        if isinstance(interval, Interval)
        else _value(f"{name}_interval", None, interval)
    )


def _margins(contest: Contest | None, *, prefix: str) -> dict[str, Any]:
    names = (f"{prefix}margin", f"{prefix}margin_over_other_library")
    if contest is None:
        return _absent(names, "only the first of the contestants of its style has a margin")
    if contest.margin is None:
        return _absent(names, "no other contestant of its style succeeded in all its repeats, with valid figures")
    rival = None if contest.rival is None else _comparison(contest.rival)
    return {names[0]: _comparison(contest.margin)} | _value(
        names[1], rival, "no client of another library succeeded in all its repeats, with valid figures"
    )


def _absent(names: Iterable[str], reason: str) -> dict[str, Any]:
    return {key: value for name in names for key, value in _value(name, None, reason).items()}


def _comparison(comparison: Comparison) -> dict[str, Any]:
    interval = comparison.interval
    return {
        "over": comparison.denominator,
        "ratio": comparison.ratio,
        "repeats": comparison.repeats,
        "low": None if interval is None else interval.low,
        "high": None if interval is None else interval.high,
        "confidence": None if interval is None else interval.confidence,
        "decided": comparison.decided,
        **({} if interval else {"interval_reason": comparison.obstacle}),
    }


def _value(name: str, value: Any, reason: str | None) -> dict[str, Any]:
    return {name: value} if value is not None else {name: None, f"{name}_reason": reason}
