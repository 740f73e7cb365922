"""Runs arranged by what is comparable: a series for each client and figure, of those that were measured alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from bucketbench.comparing.likeness import canonical, host_class, is_allowed, varying
from bucketbench.records import State
from bucketbench.report.runs import Run, measured, versions_of
from bucketbench.report.wording import shortened
from bucketbench.results.job import JobResult, digest
from bucketbench.scenarios import find_scenario
from bucketbench.statistics import Better, IncomparableError, MeasuredJob, median

__all__ = ["Group", "Observation", "Series", "arrange_history", "time_of"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Observation:
    """One client in one run, by one figure.

    Args:
        run: ``SCENARIO/DIRECTORY``.
        at: when the run began.
        commit: of the source that ran it, None where it is not known.
        versions: of Python and the client's packages.
        values: of the repeats that succeeded and have the figure, in the order of the repeats.
        reason: why there are none; None where there are.
        doubts: the rules of a valid measurement that repeats with a value broke, each with how many these are.
        remark: how many repeats have no value beside those that have one, and why; None where all have.
    """

    run: str
    at: datetime
    commit: str | None
    versions: Mapping[str, str | None]
    values: tuple[float, ...]
    reason: str | None = None
    doubts: Mapping[str, int] = field(default_factory=dict)
    remark: str | None = None

    @property
    def median(self) -> float | None:
        """Of the values; None without any."""
        return median(self.values) if self.values else None


@dataclass(frozen=True, kw_only=True, slots=True)
class Series:
    """One client's figure over runs that are comparable.

    Args:
        client: its name, with the options in which it differs from others of that name in any run.
        figure: the figure's name.
        unit: its unit in these runs; of a figure that was divided by another client's, times that one.
        better: which values are the better ones.
        observations: in order of time.
    """

    client: str
    figure: str
    unit: str
    better: Better
    observations: tuple[Observation, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """What is comparable: one scenario, one set of parameters, one class of machines.

    Args:
        scenario: its name.
        experiment: the digest of the parameters.
        parameters: those in which it differs from other groups of the scenario.
        host: system, processor, cores and memory.
        series: by figure and client.
    """

    scenario: str
    experiment: str
    parameters: Mapping[str, Any]
    host: Mapping[str, Any]
    series: tuple[Series, ...]

    @property
    def observations(self) -> list[Observation]:
        """One of each run, in order of time."""
        by_run = {one.run: one for series in self.series for one in series.observations}
        return sorted(by_run.values(), key=lambda one: (one.at, one.run))


@dataclass(slots=True)
class _Collected:
    """A group while it is put together: jobs by client and run."""

    parameters: Mapping[str, Any]
    host: Mapping[str, Any]
    jobs: dict[str, dict[str, list[tuple[MeasuredJob, JobResult]]]] = field(default_factory=dict)


def arrange_history(
    runs: Sequence[Run],
    *,
    figures: Sequence[str] = (),
    clients: Sequence[str] = (),
    allowed: Sequence[str] = (),
    relative_to: str | None = None,
) -> list[Group]:
    """Arrange runs. What is not comparable is never in one series: it makes another group, or another client.

    Args:
        runs: of one scenario each, see :func:`bucketbench.report.runs.by_scenario`, each with a time.
        figures: which figures; none for those in which the scenario compares clients.
        clients: which clients, by name; none for all.
        allowed: what may differ within a group: names of parameters, or their first parts, and ``host``.
        relative_to: a client by whose value of the same repeat each value is divided.

    Returns:
        The groups of each scenario, that of the most runs first.

    Raises:
        IncomparableError: the scenario has no such figure, no run has such a client, or one run has a client several
            times where so much may differ.
    """
    known = {result.client for run in runs for result in run.results}
    absent = [name for name in clients if name not in known]
    if absent:
        raise IncomparableError(
            f"none of the runs has such a client as {absent[0]!r}; they have {', '.join(sorted(known))}"
        )
    by_scenario: dict[str, list[Run]] = {}
    for run in runs:
        by_scenario.setdefault(run.scenario, []).append(run)
    groups = []
    for scenario, found in by_scenario.items():
        groups += _groups(scenario, found, figures, clients, allowed, relative_to)
    return groups


def time_of(run: Run) -> datetime | None:
    """When a run began; None where nothing tells. A time without a zone is taken for UTC."""
    try:
        at = datetime.fromisoformat(run.started_at or "")
        return at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None


def _groups(
    scenario: str,
    runs: Sequence[Run],
    figures: Sequence[str],
    clients: Sequence[str],
    allowed: Sequence[str],
    relative_to: str | None,
) -> list[Group]:
    known = find_scenario(scenario).figures
    names = list(figures) or known.contests
    unknown = [name for name in names if name not in known.kinds]
    if unknown:
        raise IncomparableError(f"there is no figure {unknown[0]!r}; {scenario} has {', '.join(sorted(known.kinds))}")
    if relative_to is not None:
        _check_reference(runs, relative_to)
    collected = _collect(runs, allowed)
    every = {_name(run): run for run in runs}
    differing = varying([one.parameters for one in collected.values()])
    groups = []
    for key, one in collected.items():
        series = [
            _series(client, name, unit, one, every, relative_to)
            for name in names
            for client, found in one.jobs.items()
            for unit in _units(found, name, known.units[name])
            if client != relative_to and (not clients or next(iter(found.values()))[0][1].client in clients)
        ]
        if series:
            groups.append(
                Group(
                    scenario=scenario,
                    experiment=key[0],
                    parameters={name: one.parameters[name] for name in differing if name in one.parameters},
                    host=one.host,
                    series=tuple(series),
                )
            )
    return sorted(groups, key=lambda group: -len(group.observations))


def _check_reference(runs: Sequence[Run], client: str) -> None:
    names = dict.fromkeys(job.client for job in measured([result for run in runs for result in run.results]))
    if client not in names:
        raise IncomparableError(
            f"none of the runs of {runs[0].scenario} has a client {client!r}; they have {', '.join(names)}"
        )


def _units(jobs_by_run: Mapping[str, Sequence[tuple[MeasuredJob, JobResult]]], figure: str, usual: str) -> list[str]:
    """The units in which jobs have a figure, each of which makes a series: they cannot be drawn in one."""
    jobs = [job for jobs in jobs_by_run.values() for job, _ in jobs]
    return list(dict.fromkeys(_unit(job, figure, usual) for job in jobs))


def _unit(job: MeasuredJob, figure: str, usual: str) -> str:
    return job.figures[figure].unit if figure in job.figures else usual


def _collect(runs: Sequence[Run], allowed: Sequence[str]) -> dict[tuple[str, str], _Collected]:
    # Named together, so that a client that was set up in two ways in two runs is two clients.
    results = [result for run in runs for result in run.results]
    names = [_name(run) for run in runs for _ in run.results]
    hosts = [result.host or run.host for run in runs for result in run.results]
    collected: dict[tuple[str, str], _Collected] = {}
    for run, host, job, result in zip(names, hosts, measured(results), results, strict=True):
        parameters = {name: value for name, value in result.parameters.items() if not is_allowed(name, allowed)}
        of_host = {} if "host" in allowed else host_class(host)
        group = collected.setdefault(
            (digest(parameters), digest(of_host)), _Collected(parameters=parameters, host=of_host)
        )
        inside = group.jobs.setdefault(job.client, {}).setdefault(run, [])
        if any(canonical(other.parameters) != canonical(job.parameters) for other, _ in inside):
            raise IncomparableError(
                f"{run} has {job.client} with several values of what may differ ({', '.join(allowed)}), which are not "
                "one measurement: allow less, or leave that run out"
            )
        inside.append((job, result))
    return collected


def _series(
    client: str, figure: str, unit: str, group: _Collected, runs: Mapping[str, Run], relative_to: str | None
) -> Series:
    kind = find_scenario(next(iter(group.jobs[client].values()))[0][1].scenario).figures.kinds[figure]
    observations = []
    for name, found in group.jobs[client].items():
        jobs = [one for one in found if _unit(one[0], figure, kind.unit) == unit]
        if not jobs:
            continue
        at = time_of(runs[name])
        if at is None:
            raise IncomparableError(f"{name} has no time: it cannot be part of a history")
        others = None if relative_to is None else group.jobs.get(relative_to, {}).get(name, [])
        values, reasons = _values(jobs, figure, others, relative_to)
        first = jobs[0][1]
        observations.append(
            Observation(
                run=name,
                at=at,
                commit=first.commit or runs[name].commit,
                versions=versions_of(result for _, result in jobs),
                values=tuple(values),
                reason=None if values else _joined(reasons),
                remark=_remark(jobs, reasons) if values else None,
                doubts=Counter(
                    mark.rule for job, _ in jobs if values and job.state is State.DOUBTFUL for mark in job.marks
                ),
            )
        )
    return Series(
        client=client,
        figure=figure,
        unit=unit if relative_to is None else f"times {relative_to}",
        better=kind.better,
        observations=tuple(sorted(observations, key=lambda one: (one.at, one.run))),
    )


def _joined(reasons: Sequence[str]) -> str:
    return shortened("; ".join(dict.fromkeys(reasons)))


def _remark(jobs: Sequence[tuple[MeasuredJob, JobResult]], reasons: Sequence[str]) -> str | None:
    """How many repeats the values are not of, and why; None where they are of all."""
    return f"{len(reasons)} of {len(jobs)} repeats without a value: {_joined(reasons)}" if reasons else None


def _values(
    jobs: Sequence[tuple[MeasuredJob, JobResult]],
    figure: str,
    others: Sequence[tuple[MeasuredJob, JobResult]] | None,
    relative_to: str | None,
) -> tuple[list[float], list[str]]:
    """The values of a client's repeats, and the reasons of those without."""
    by_place = {}
    for job, _ in others or ():
        by_place[job.repeat, canonical(job.parameters)] = _value(job, figure)[0]
    values, reasons = [], []
    for job, _ in sorted(jobs, key=lambda one: one[0].repeat):
        value, reason = _value(job, figure)
        if value is not None and others is not None:
            divisor = by_place.get((job.repeat, canonical(job.parameters)))
            value, reason = (value / divisor, "") if divisor else (None, f"{relative_to} has no {figure} to divide by")
        if value is None or value <= 0:
            reasons.append(reason or f"its {figure} is {value}")
        else:
            values.append(value)
    return values, reasons


def _value(job: MeasuredJob, figure: str) -> tuple[float | None, str]:
    found = job.figures.get(figure)
    if job.failure is not None:
        return None, f"failed: {job.failure}"
    if job.state is State.INVALID:
        return None, f"invalid: {'; '.join(mark.reason for mark in job.marks if mark.state is State.INVALID)}"
    if found is None:
        return None, "the results do not have it"
    return found.value, found.reason or ""


def _name(run: Run) -> str:
    return f"{run.scenario}/{run.directory.resolve().name}"
