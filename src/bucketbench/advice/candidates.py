"""What a run tried, arranged by question: who can be advised for it, and who cannot and why."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bucketbench.records import State
from bucketbench.report.costs import figures_of
from bucketbench.report.runs import Run
from bucketbench.report.sections import arrange
from bucketbench.report.swept import SweptPoint, swept_points
from bucketbench.report.values import identity, override_text, texts_by_key
from bucketbench.scenarios import find_scenario
from bucketbench.statistics import Better, FigureSet, Status, Summary

__all__ = ["Candidate", "Question", "questions"]

_MEMORY: Final = "peak_rss_mib"
_CLIENT: Final = "client."


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """A client with settings, as it was measured.

    Args:
        client: its name.
        settings: what was swept of it or may be chosen for it, by key.
        told: the same as text, told apart from the other candidates'.
        summary: its repeats.
        memory_mib: the highest of any repeat, of the measured process and its workers; None where it is not known.
        costs: of its work by price list, by figure; None where it is not known.
    """

    client: str
    settings: Mapping[str, Any]
    told: Mapping[str, str]
    summary: Summary
    memory_mib: float | None
    costs: Mapping[str, float | None]

    @property
    def label(self) -> str:
        """The client with its settings, by the last parts of their keys."""
        told = [f"{key.rpartition('.')[2]}={text}" for key, text in self.told.items()]
        return f"{self.client} with {', '.join(told)}" if told else self.client

    @property
    def overrides(self) -> str:
        """The client with its settings as a sweep takes them, to be copied into a shell."""
        # An option need not be among those that the client's file names.
        keys = {key: f"++{key}" if key.startswith(_CLIENT) else key for key in self.settings}
        told = [f"{keys[key]}={override_text(value)}" for key, value in self.settings.items()]
        return " ".join(map(shlex.quote, [f"client={self.client}", *told]))


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """For what a client is looked for: one figure, with one set of what is not ours to choose.

    Args:
        figure: the figure's name.
        contest: what it is called in sentences.
        unit: its unit.
        better: which values are the better ones.
        given: what makes it another question than others of the run, by key.
        title: the same as text; empty where it is the only one of its figure.
        target: what it is for, wherever that is.
        candidates: who can be advised, the best median first.
        left_out: who cannot, and why.
        untried: settings that every candidate has the same value of.
    """

    figure: str
    contest: str
    unit: str
    better: Better
    given: Mapping[str, Any]
    title: str
    target: Mapping[str, Any]
    candidates: tuple[Candidate, ...]
    left_out: tuple[tuple[str, str], ...]
    untried: tuple[str, ...]


def questions(run: Run, *, memory_limit_bytes: int | None = None) -> list[Question]:
    """The questions that a run answers: one for each figure by which clients are compared, and each set of parameters.

    What can be chosen (options of clients, and what the scenario says, such as the number of workers) is part of an
    answer; whatever else a run sweeps makes another question.

    Args:
        run: of one scenario.
        memory_limit_bytes: who took more is left out; None for no limit.
    """
    figures, tunable = figures_of(run), find_scenario(run.scenario).tunable
    points = swept_points(run, arrange(run))
    options = {job.client: result.client_options for job, result in zip(run.jobs, run.results, strict=True)}
    by_given: dict[str, tuple[dict[str, Any], list[SweptPoint]]] = {}
    for point in points:
        given = {key: value for key, value in point.keys.items() if not _is_tunable(key, tunable)}
        by_given.setdefault(identity(given), (given, []))[1].append(point)
    told = texts_by_key([given for given, _ in by_given.values()])
    titles = [" ".join(f"{key}={text}" for key, text in texts.items()) for texts in told]
    found = []
    for name in figures.contests:
        if not any(_may_tell(point, name) for point in points):
            continue  # such as that of saves where jobs only load
        for title, (given, inside) in zip(titles, by_given.values(), strict=True):
            found.append(_question(name, given, title, inside, figures, tunable, options, memory_limit_bytes))
    return found


def _may_tell(point: SweptPoint, figure: str) -> bool:
    """Whether the point has the figure, or would have had it if it had not failed."""
    return point.summary.status is Status.FAILED or point.summary.figures[figure].median is not None


def _question(
    figure: str,
    given: Mapping[str, Any],
    title: str,
    points: Sequence[SweptPoint],
    figures: FigureSet,
    tunable: Sequence[str],
    options: Mapping[str, Mapping[str, Any]],
    memory_limit_bytes: int | None,
) -> Question:
    kind = figures.kinds[figure]
    candidates, left_out = [], []
    competing = [point for point in points if point.summary.role.competes]
    every = [_settings(point, tunable, options[point.summary.client]) for point in competing]
    for point, chosen, told in zip(competing, every, texts_by_key(every), strict=True):
        candidate = _candidate(point, chosen, told)
        reason = _unfit(candidate, figure, memory_limit_bytes)
        if reason is None:
            candidates.append(candidate)
        else:
            left_out.append((candidate.label, reason))
    candidates.sort(key=lambda one: kind.better.place(one.summary.figures[figure].median))
    parameters = points[0].summary.parameters
    settings = [one.settings for one in candidates]
    return Question(
        figure=figure,
        contest=kind.contest or figure,
        unit=kind.unit,
        better=kind.better,
        given=given,
        title=title,
        target={name: parameters[name] for name in ("target", "network") if name in parameters and name not in given},
        candidates=tuple(candidates),
        left_out=tuple(left_out),
        untried=tuple(
            key
            for key in tunable[:1]  # the setting that matters first
            if candidates
            and len({identity(one.get(key)) for one in settings}) == 1
            and settings[0].get(key) is not None
        ),
    )


def _settings(point: SweptPoint, tunable: Sequence[str], options: Mapping[str, Any]) -> dict[str, Any]:
    """What was swept of a client or may be chosen for it, by key."""
    swept = {key: value for key, value in point.keys.items() if _is_tunable(key, tunable)}
    first = {key: point.summary.parameters[key] for key in tunable[:1] if point.summary.parameters.get(key) is not None}
    own = {
        f"{_CLIENT}{name}": value
        for name, value in options.items()
        if name.startswith("options.") and value is not None
    }
    return {**first, **swept, **own}


def _candidate(point: SweptPoint, settings: Mapping[str, Any], told: Mapping[str, str]) -> Candidate:
    summary = point.summary
    memory = summary.figures[_MEMORY].by_repeat.values() if _MEMORY in summary.figures else ()
    return Candidate(
        client=point.client,
        settings=settings,
        told=told,
        summary=summary,
        memory_mib=max(memory, default=None),
        costs={name: figure.median for name, figure in summary.figures.items() if name.startswith("cost_per_")},
    )


def _unfit(candidate: Candidate, figure: str, memory_limit_bytes: int | None) -> str | None:
    """Why a client is no basis for advice; None where it is."""
    summary = candidate.summary
    if summary.status is not Status.OK:
        return f"{len(summary.failures)} of {summary.repeats} repeats failed"
    if summary.state is State.INVALID:
        reasons = "; ".join(mark.reason for mark in summary.marks if mark.state is State.INVALID)
        return f"{summary.repeats_by_state[State.INVALID]} of {summary.repeats} repeats are invalid: {reasons}"
    if min(summary.figures[figure].by_repeat.values(), default=0.0) <= 0:
        return summary.figures[figure].reason or f"a repeat has no {figure} above 0"
    if summary.errors.value:
        return f"{summary.errors.value:.0f} errors"
    if memory_limit_bytes is not None:
        if candidate.memory_mib is None:
            return "its memory is not known"
        if candidate.memory_mib * 2**20 > memory_limit_bytes:
            return f"it took {candidate.memory_mib:,.0f} MiB of memory"
    return None


def _is_tunable(key: str, tunable: Sequence[str]) -> bool:
    return key.startswith(_CLIENT) or key in tunable
