"""A run arranged for readers: one section a parameter set, and in it one entry a client."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bucketbench.records import Figure
from bucketbench.report.runs import Run
from bucketbench.statistics import Contest, Role, Status, Summary, hold_contest, summarise

__all__ = ["Entry", "Section", "arrange", "shared_parameters"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One client in a section: its summary, and its throughput in percent of the fastest ceiling's."""

    summary: Summary
    percent_of_ceiling: Figure


@dataclass(frozen=True, kw_only=True, slots=True)
class Section:
    """The clients that ran with one parameter set.

    Args:
        varying: the parameters by which the run's sections differ; empty where there is one section.
        entries: contestants first, the fastest on top, then the references.
        contest: which contestant won.
    """

    varying: Mapping[str, Any]
    entries: Sequence[Entry]
    contest: Contest


def arrange(run: Run) -> list[Section]:
    """Arrange the results of a run, its parameter sets in the order in which they ran.

    Raises:
        IncomparableError: where jobs of the run cannot be put together.
    """
    groups: dict[str, list[Summary]] = {}
    for summary in summarise(run.jobs):
        groups.setdefault(json.dumps(summary.parameters, sort_keys=True), []).append(summary)
    shared = shared_parameters(run)
    sections = []
    for summaries in groups.values():
        varying = {name: value for name, value in summaries[0].parameters.items() if name not in shared}
        ceilings = [entry for entry in summaries if entry.role is Role.CEILING]
        ceiling = max(ceilings, key=_throughput, default=None)
        entries = [
            Entry(summary=summary, percent_of_ceiling=_percent(summary, ceiling))
            for summary in sorted(summaries, key=_place)
        ]
        sections.append(Section(varying=varying, entries=entries, contest=hold_contest(summaries)))
    return sections


def shared_parameters(run: Run) -> dict[str, Any]:
    """The parameters that have the same value in all jobs of a run."""
    first = run.jobs[0].parameters
    return {
        name: value
        for name, value in first.items()
        if all(name in job.parameters and job.parameters[name] == value for job in run.jobs)
    }


def _place(summary: Summary) -> tuple[bool, bool, float, str]:
    failed = summary.status is Status.FAILED
    return not summary.role.competes, failed, -_throughput(summary), summary.client


def _throughput(summary: Summary) -> float:
    return summary.figures["throughput_mibs"].median or 0.0


def _percent(summary: Summary, ceiling: Summary | None) -> Figure:
    if ceiling is None:
        return Figure(unit="%", reason="no client with role: ceiling was part of the run")
    own, highest = summary.figures["throughput_mibs"].median, ceiling.figures["throughput_mibs"].median
    if not highest:
        return Figure(unit="%", reason=f"the ceiling, {ceiling.client}, has no throughput")
    if own is None:
        return Figure(unit="%", reason=summary.figures["throughput_mibs"].reason)
    return Figure(unit="%", value=100 * own / highest)
