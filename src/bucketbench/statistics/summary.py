"""The repeats of one client with one set of parameters, taken together."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from bucketbench.errors import BucketbenchError
from bucketbench.records import Figure, Mark, State
from bucketbench.statistics.intervals import Interval, interval_obstacle, median_interval
from bucketbench.statistics.percentiles import median

__all__ = [
    "FigureSummary",
    "IncomparableError",
    "MeasuredJob",
    "RepeatedMark",
    "Role",
    "Status",
    "Summary",
    "repeated_marks",
    "summarise",
]


class IncomparableError(BucketbenchError):
    """Results were put together that do not measure the same thing; the message says what differs."""


class Role(StrEnum):
    """What a client is in a comparison."""

    CONTESTANT = "contestant"  # may win
    REFERENCE = "reference"  # shows what something else could do, and neither wins nor loses
    CEILING = "ceiling"  # a reference, too: a bare loop, which the others are given in percent of

    @property
    def competes(self) -> bool:
        """Whether the client may win."""
        return self is Role.CONTESTANT


class Status(StrEnum):
    """How the repeats of a client went."""

    OK = "ok"
    PARTIAL = "partial"  # some repeats failed
    FAILED = "failed"  # all did


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasuredJob:
    """One job, as far as statistics need to know it.

    Args:
        scenario: its scenario.
        client: the client's name.
        role: whether the client takes part in the contest.
        library: what the client is made of, the same for all clients of one library; None where it is not known.
        parameters: what distinguishes the job but the client and the repeat: dotted name to value.
        repeat: the number of the repeat; jobs of the same repeat ran next to each other.
        figures: its figures by name.
        details: how it was measured, by name.
        failure: why it failed, None where it did not.
        state: whether its figures are what they are said to be; None where that was not judged.
        marks: the rules of a valid measurement that it broke.
    """

    scenario: str
    client: str
    role: Role = Role.CONTESTANT
    library: str | None = None
    parameters: Mapping[str, Any]
    repeat: int
    figures: Mapping[str, Figure]
    details: Mapping[str, str] = field(default_factory=dict)
    failure: str | None = None
    state: State | None = None
    marks: Sequence[Mark] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class RepeatedMark:
    """A rule that repeats of a client broke, each as badly.

    Args:
        rule: its name; a rule that makes some repeats doubtful and others invalid is there twice.
        state: what it makes of these repeats.
        reason: what was found in the first of them.
        repeats: how many they are.
    """

    rule: str
    state: State
    reason: str
    repeats: int


@dataclass(frozen=True, kw_only=True, slots=True)
class FigureSummary:
    """One figure over the repeats that succeeded.

    Args:
        unit: its unit.
        by_repeat: its value in each repeat that has one.
        reason: why no repeat has a value, None where one does.
    """

    unit: str
    by_repeat: Mapping[int, float]
    reason: str | None = None

    @property
    def median(self) -> float | None:
        """The median over the repeats; None without a value."""
        return median(self.by_repeat.values()) if self.by_repeat else None

    @property
    def spread(self) -> float | None:
        """The greatest distance of a repeat from the median; None with fewer than two values.

        So *median ± spread* holds every repeat. A run has a handful of repeats, of which a quartile or a standard
        deviation would say little, and of which none should be hidden. *Source*: our choice.
        """
        middle = self.median
        if middle is None or len(self.by_repeat) < 2:
            return None
        return max(abs(value - middle) for value in self.by_repeat.values())

    def interval(self) -> Interval | str:
        """The interval of the median, or why there is none."""
        values = list(self.by_repeat.values())
        return self.reason or interval_obstacle(values) or median_interval(values)


@dataclass(frozen=True, kw_only=True, slots=True)
class Summary:
    """All repeats of one client with one set of parameters; figures are those of the repeats that succeeded.

    Args:
        scenario: the scenario.
        client: the client's name.
        role: whether it takes part in the contest.
        library: as its jobs have it.
        parameters: what its jobs have in common.
        repeats: number of its jobs.
        failures: the reason of each that failed.
        figures: every figure by name.
        details: how its jobs were measured; of a detail in which they differ, that of the first.
        errors: what arrived wrong or not at all, in all repeats together, failed repeats included.
        marks: the rules of a valid measurement that repeats which succeeded broke, the worst first.
        repeats_by_state: how many repeats that succeeded are valid, doubtful or invalid, of those that were judged.
    """

    scenario: str
    client: str
    role: Role
    library: str | None
    parameters: Mapping[str, Any]
    repeats: int
    failures: Sequence[str]
    figures: Mapping[str, FigureSummary]
    details: Mapping[str, str]
    errors: Figure
    marks: Sequence[RepeatedMark] = ()
    repeats_by_state: Mapping[State, int] = field(default_factory=dict)

    @property
    def state(self) -> State | None:
        """Whether its figures are what they are said to be: the worst of its repeats; None where that is not known, as
        none succeeded, or one was not judged and the others are valid.
        """
        worst = next((state for state in _WORST_FIRST if self.repeats_by_state.get(state)), None)
        judged, succeeded = sum(self.repeats_by_state.values()), self.repeats - len(self.failures)
        return worst or (State.VALID if 0 < judged == succeeded else None)

    @property
    def status(self) -> Status:
        """How its repeats went."""
        if not self.failures:
            return Status.OK
        return Status.FAILED if len(self.failures) == self.repeats else Status.PARTIAL


_WORST_FIRST = (State.INVALID, State.DOUBTFUL)


def summarise(jobs: Iterable[MeasuredJob], *, units: Mapping[str, str]) -> list[Summary]:
    """Put the repeats of each client and parameter set together, in the order in which each first appears.

    Args:
        jobs: of one scenario.
        units: name and unit of the figures that each summary has, also where no job has them; ``errors`` is one.

    Raises:
        IncomparableError: where two jobs of one client and parameter set have the same repeat, so that something else
            distinguishes them, or where a figure's unit changes.
    """
    groups: dict[tuple[str, str, str], list[MeasuredJob]] = {}
    for job in jobs:
        key = (job.scenario, job.client, json.dumps(job.parameters, sort_keys=True, default=str))
        groups.setdefault(key, []).append(job)
    return [_summary(group, units) for group in groups.values()]


def _summary(jobs: Sequence[MeasuredJob], units: Mapping[str, str]) -> Summary:
    first = jobs[0]
    repeats = sorted(job.repeat for job in jobs)
    if len(set(repeats)) != len(repeats):
        twice = next(repeat for repeat in repeats if repeats.count(repeat) > 1)
        raise IncomparableError(
            f"repeat {twice} of client {first.client!r} is there more than once with the same parameters "
            f"{dict(first.parameters)}: sweep repeat= to repeat a job, and give what else differs a parameter"
        )
    succeeded = [job for job in jobs if job.failure is None]
    names = [*units, *sorted({name for job in jobs for name in job.figures} - units.keys())]
    return Summary(
        scenario=first.scenario,
        client=first.client,
        role=first.role,
        library=first.library,
        parameters=first.parameters,
        repeats=len(jobs),
        failures=tuple(job.failure for job in jobs if job.failure is not None),
        figures={name: _figure_summary(name, succeeded, units) for name in names},
        details={name: value for job in reversed(jobs) for name, value in job.details.items()},
        errors=_all_errors(jobs, units),
        marks=repeated_marks(job.marks for job in succeeded),
        repeats_by_state=Counter(job.state for job in succeeded if job.state is not None),
    )


def repeated_marks(jobs: Iterable[Iterable[Mark]]) -> list[RepeatedMark]:
    """The marks of jobs that repeat one another, the worst first.

    Args:
        jobs: the marks of each.
    """
    broken: dict[tuple[str, State], list[Mark]] = {}
    for marked in jobs:
        for mark in marked:
            broken.setdefault((mark.rule, mark.state), []).append(mark)
    found = [
        RepeatedMark(rule=rule, state=state, reason=marks[0].reason, repeats=len(marks))
        for (rule, state), marks in broken.items()
    ]
    return sorted(found, key=lambda mark: _WORST_FIRST.index(mark.state))


def _figure_summary(name: str, succeeded: Sequence[MeasuredJob], known: Mapping[str, str]) -> FigureSummary:
    figures = {job.repeat: job.figures[name] for job in succeeded if name in job.figures}
    units = {figure.unit for figure in figures.values()}
    if len(units) > 1:
        raise IncomparableError(f"{name} is measured in {' and in '.join(sorted(units))}: these cannot be put together")
    unit = units.pop() if units else known.get(name, "")
    by_repeat = {repeat: figure.value for repeat, figure in sorted(figures.items()) if figure.value is not None}
    if by_repeat:
        return FigureSummary(unit=unit, by_repeat=by_repeat)
    if not succeeded:
        return FigureSummary(unit=unit, by_repeat={}, reason="no repeat succeeded")
    return FigureSummary(unit=unit, by_repeat={}, reason=_reasons(figures.values()))


def _all_errors(jobs: Sequence[MeasuredJob], units: Mapping[str, str]) -> Figure:
    figures = [job.figures["errors"] for job in jobs if "errors" in job.figures]
    counted = [figure.value for figure in figures if figure.value is not None]
    unit = units["errors"]
    if counted:
        return Figure(unit=unit, value=sum(counted))
    return Figure(unit=unit, reason=_reasons(figures))


def _reasons(figures: Iterable[Figure]) -> str:
    reasons = dict.fromkeys(figure.reason for figure in figures if figure.reason is not None)
    return "; ".join(reasons) or "the results do not have it"
