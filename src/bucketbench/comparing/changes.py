"""What became better or worse from one run to another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from bucketbench.comparing.likeness import host_class, varying
from bucketbench.comparing.rows import Rows
from bucketbench.comparing.selection import Side
from bucketbench.records import State
from bucketbench.report.wording import shortened
from bucketbench.scenarios import find_scenario
from bucketbench.statistics import (
    Better,
    FigureSummary,
    IncomparableError,
    Interval,
    Role,
    Status,
    Summary,
    compare,
    unpaired_obstacle,
    unpaired_ratio,
    unpaired_ratio_interval,
)

__all__ = ["NOISE_THRESHOLD", "Change", "Effect", "changes_between"]

NOISE_THRESHOLD: Final = 0.01
"""Share by which a figure of one machine differs from run to run though nothing has changed. *Source*: Criterion.rs,
which takes the same without being told otherwise (``noise_threshold``)."""

_INVALID: Final = "invalid"
_FAILING: Final = (Status.OK, Status.PARTIAL, Status.FAILED)  # ever more


class Effect(StrEnum):
    """What a change is."""

    BETTER = "better"
    WORSE = "worse"
    DIFFERENT = "different"  # of a figure of which no value is better than another
    UNDECIDED = "undecided"
    UNKNOWN = "n/a"


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """One figure of one client in both runs.

    Args:
        client: the client's name; of both where they are two.
        parameters: what distinguishes its jobs from others of the run.
        figure: the figure's name.
        unit: its unit.
        base: its median in the first run; None where it has none.
        candidate: its median in the second.
        ratio: how many times the first is the second; None where there is none.
        interval: of the ratio; None where none can be made.
        effect: what that means.
        reason: why there is no ratio or no interval; None where there is one.
        better: which values of the figure are the better ones.
        doubts: the rules of a valid measurement that either side broke, and its repeats that failed.
        role: whether the client takes part in the comparison, or shows what the machine can do.
        relative_to: the client by whose values its own were divided; None for its own values.
    """

    client: str
    parameters: Mapping[str, Any]
    figure: str
    unit: str
    base: float | None = None
    candidate: float | None = None
    ratio: float | None = None
    interval: Interval | None = None
    effect: Effect = Effect.UNKNOWN
    reason: str | None = None
    better: Better = Better.NEITHER
    doubts: tuple[str, ...] = ()
    role: Role = Role.CONTESTANT
    relative_to: str | None = None

    def is_regression(self, share: float) -> bool:
        """Whether it is surely worse, and its ratio by that share: of 0.1, 0.9 of a throughput or 1.1 of a time."""
        if self.effect is not Effect.WORSE:
            return False
        if self.ratio is None:
            return True  # it failed
        return self.ratio <= 1 - share if self.better is Better.HIGHER else self.ratio >= 1 + share


def changes_between(
    base: Side,
    candidate: Side,
    *,
    figures: Sequence[str] = (),
    allowed: Sequence[str] = (),
    relative_to: str | None = None,
    noise_threshold: float = NOISE_THRESHOLD,
) -> list[Change]:
    """Compare each client of the second run with the same of the first, figure by figure.

    Args:
        base: the first run.
        candidate: the second.
        figures: which figures; none for those in which the scenario compares clients.
        allowed: what may differ between the runs: names of parameters, or their first parts, and ``host``; with
            ``invalid`` figures that are marked invalid are compared too.
        relative_to: a client of both runs by whose value of the same repeat each value is divided, so that what made
            one whole run faster, such as a quieter machine, does not count.
        noise_threshold: the share, from 0 to below 1, by which a figure may differ from run to run of itself: an
            interval must lie beyond it, one way or the other, to be a change. Two clients of one run have no such
            threshold.

    Raises:
        IncomparableError: the runs do not measure the same thing, or not in the same unit, or on machines of two
            classes; the message names what differs.
    """
    scenario = base.run.scenario
    if scenario != candidate.run.scenario:
        raise IncomparableError(f"{base.name} is a run of {scenario}, and {candidate.name} of {candidate.run.scenario}")
    _check_hosts(base, candidate, allowed)
    kinds = find_scenario(scenario).figures
    names = list(figures) or list(kinds.contests)
    unknown = [name for name in names if name not in kinds.kinds]
    if unknown:
        raise IncomparableError(f"there is no figure {unknown[0]!r}; {scenario} has {', '.join(sorted(kinds.kinds))}")
    sides = [Rows(side, kinds.units, allowed) for side in (base, candidate)]
    pairs = sides[0].paired_with(sides[1])
    if not pairs:
        raise IncomparableError(sides[0].difference(sides[1]))
    is_one_run = _is_one_run(base, candidate)
    if is_one_run and any(first.client == second.client for first, second in pairs):
        raise IncomparableError(
            f"{base.name} and {candidate.name} are the same run: name another one, or two of its clients as RUN@CLIENT"
        )
    if relative_to is not None and all(first.client == relative_to for first, _ in pairs):
        raise IncomparableError(f"there is nothing to compare with {relative_to!r}: no other client is in both runs")
    differing = varying([first.parameters for first, _ in pairs])
    return [
        _change(
            *pair,
            figure=name,
            better=kinds.kinds[name].better,
            varying=differing,
            is_paired=is_one_run,
            references=_references(sides, pair, relative_to),
            allows_invalid=_INVALID in allowed,
            noise_threshold=noise_threshold,
        )
        for pair in pairs
        if pair[0].client != relative_to
        for name in names
    ]


def _is_one_run(base: Side, candidate: Side) -> bool:
    """Whether both sides are of one run, also where one is the baseline that was made of it."""
    if base.run.directory.resolve() == candidate.run.directory.resolve():
        return True
    return base.run.id == candidate.run.id is not None and base.run.results == candidate.run.results


def _references(
    sides: Sequence[Rows], pair: tuple[Summary, Summary], client: str | None
) -> tuple[Summary, Summary] | None:
    if client is None:
        return None
    return sides[0].reference(client, pair[0]), sides[1].reference(client, pair[1])


def _change(
    first: Summary,
    second: Summary,
    *,
    figure: str,
    better: Better,
    varying: Iterable[str],
    is_paired: bool,
    references: Sequence[Summary] | None,
    allows_invalid: bool,
    noise_threshold: float,
) -> Change:
    client = first.client if first.client == second.client else f"{first.client} → {second.client}"
    if references is not None:
        first, second = (
            _relative(summary, figure, reference)
            for summary, reference in zip((first, second), references, strict=True)
        )
    here = Change(
        client=client,
        parameters={name: first.parameters[name] for name in varying if name in first.parameters},
        figure=figure,
        unit=first.figures[figure].unit,
        better=better,
        role=first.role,
        relative_to=None if references is None else references[0].client,
    )
    if _FAILING.index(second.status) > _FAILING.index(first.status):
        now = "it fails now" if second.status is Status.FAILED else "it fails in some repeats now"
        return replace(here, effect=Effect.WORSE, reason=f"{now}: {shortened(second.failures[0])}")
    sides_told = [("its", first, "before"), ("its", second, "after")]
    if references is not None:
        sides_told += [
            (f"{one.client}'s", one, when) for one, when in zip(references, ("before", "after"), strict=True)
        ]
    here = replace(here, doubts=tuple(doubt for whose, one, when in sides_told for doubt in _doubts(whose, one, when)))
    invalid = [told for whose, one, when in sides_told for told in _invalid(whose, one, when)]
    if invalid and not allows_invalid:
        return replace(here, reason=f"{'; '.join(invalid)}. --allow invalid compares it all the same")
    sides = [first.figures[figure], second.figures[figure]]
    units = {side.unit for side in sides}
    if len(units) > 1:
        raise IncomparableError(f"{figure} of {client} is in {' and '.join(sorted(units))}")
    here = replace(here, base=sides[0].median, candidate=sides[1].median)
    try:
        if is_paired:
            found = compare(replace(second, parameters=first.parameters), first, figure=figure)
            return _judged(here, found.ratio, found.interval, found.obstacle, noise_threshold=0.0)
        values = [_values(summary, figure) for summary in (first, second)]
    except IncomparableError as error:
        return replace(here, reason=str(error))
    obstacle = unpaired_obstacle(values[1], values[0])
    interval = None if obstacle else unpaired_ratio_interval(values[1], values[0])
    ratio = unpaired_ratio(values[1], values[0])
    return _judged(here, ratio, interval, obstacle, noise_threshold=noise_threshold)


def _doubts(whose: str, summary: Summary, when: str) -> list[str]:
    of_other = "" if whose == "its" else f" of {summary.client}"
    return [
        f"{when}{of_other}, {mark.repeats} of {summary.repeats} repeats {mark.state} ({mark.rule}): {mark.reason}"
        for mark in summary.marks
    ] + [
        f"{when}{of_other}, {len(summary.failures)} of {summary.repeats} repeats failed: {shortened(failure)}"
        for failure in summary.failures[:1]
    ]


def _invalid(whose: str, summary: Summary, when: str) -> list[str]:
    if summary.state is not State.INVALID:
        return []
    count = summary.repeats_by_state[State.INVALID]
    reasons = "; ".join(mark.reason for mark in summary.marks if mark.state is State.INVALID)
    return [f"{whose} figures {when} are invalid in {count} of {summary.repeats} repeats: {reasons}"]


def _relative(summary: Summary, figure: str, reference: Summary) -> Summary:
    """The client with each value of the figure divided by the reference's of the same repeat."""
    own, theirs = summary.figures[figure], reference.figures[figure]
    if own.unit != theirs.unit:
        raise IncomparableError(
            f"{figure} is in {own.unit} for {summary.client} and in {theirs.unit} for {reference.client}"
        )
    found = {
        repeat: value / divisor for repeat, value in own.by_repeat.items() if (divisor := theirs.by_repeat.get(repeat))
    }
    reason = None if found else own.reason or f"{reference.client} has no {figure} to divide by in the same repeats"
    relative = FigureSummary(unit=f"times {reference.client}", by_repeat=found, reason=reason)
    return replace(summary, figures={**summary.figures, figure: relative})


def _values(summary: Summary, figure: str) -> list[float]:
    """One value a repeat."""
    values = list(summary.figures[figure].by_repeat.values())
    if not values or min(values) <= 0:
        raise IncomparableError(summary.figures[figure].reason or f"{summary.client} has no {figure} above 0")
    return values


def _judged(
    here: Change, ratio: float, interval: Interval | None, obstacle: str | None, *, noise_threshold: float
) -> Change:
    if interval is None or 1.0 in interval:
        effect = Effect.UNDECIDED
    elif interval.high >= 1 / (1 + noise_threshold) and interval.low <= 1 + noise_threshold:
        effect = Effect.UNDECIDED
        obstacle = (
            f"the interval is not beyond the {noise_threshold * 100:g}% that runs may differ by (--noise-threshold)"
        )
    elif here.better is Better.NEITHER:
        effect = Effect.DIFFERENT
    else:
        effect = Effect.BETTER if (ratio > 1) == (here.better is Better.HIGHER) else Effect.WORSE
    return replace(here, ratio=ratio, interval=interval, effect=effect, reason=obstacle)


def _check_hosts(base: Side, candidate: Side, allowed: Sequence[str]) -> None:
    if "host" in allowed:
        return
    # A launcher may have run any job on another machine, and a run may have been resumed on one.
    hosts = [host_class(one.host or side.run.host) for side in (base, candidate) for one in side.run.results]
    # Results of earlier versions do not tell the cloud's kind of a machine, nor does a machine of one's own.
    values = {
        name: list(dict.fromkeys(repr(one[name]) for one in hosts))
        for name in hosts[0]
        if all(name in one for one in hosts)
    }
    differing = [f"{name} is {' and '.join(found)}" for name, found in values.items() if len(found) > 1]
    if differing:
        raise IncomparableError(
            f"{base.name} and {candidate.name} ran on machines of several classes: {', '.join(differing)}. --allow "
            "host compares them all the same"
        )
