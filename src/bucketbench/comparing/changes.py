"""What became better or worse from one run to another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from bucketbench.comparing.likeness import canonical, host_class, is_allowed, varying
from bucketbench.comparing.selection import Side
from bucketbench.records import State
from bucketbench.scenarios import find_scenario
from bucketbench.statistics import (
    Better,
    FigureKind,
    IncomparableError,
    Interval,
    Status,
    Summary,
    compare,
    summarise,
    unpaired_obstacle,
    unpaired_ratio,
    unpaired_ratio_interval,
)

__all__ = ["Change", "Effect", "changes_between"]

_INVALID: Final = "invalid"


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
        doubts: the rules of a valid measurement that either side broke.
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

    def is_regression(self, share: float) -> bool:
        """Whether it is surely worse, and by at least that share: of 0.1, nine tenths of a throughput."""
        if self.effect is not Effect.WORSE:
            return False
        if self.ratio is None:
            return True  # it failed
        return (self.ratio if self.better is Better.HIGHER else 1 / self.ratio) <= 1 - share


def changes_between(
    base: Side,
    candidate: Side,
    *,
    figures: Sequence[str] = (),
    allowed: Sequence[str] = (),
    relative_to: str | None = None,
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
    sides = [_Rows(side, kinds.units, allowed) for side in (base, candidate)]
    pairs = sides[0].paired_with(sides[1])
    is_one_run = base.run.directory == candidate.run.directory
    differing = varying([first.parameters for first, _ in pairs])
    return [
        _change(
            *pair,
            figure=name,
            kind=kinds.kinds[name],
            varying=differing,
            is_paired=is_one_run,
            references=_references(sides, pair, relative_to),
            allows_invalid=_INVALID in allowed,
        )
        for pair in pairs
        for name in names
    ]


def _references(
    sides: Sequence[_Rows], pair: tuple[Summary, Summary], client: str | None
) -> tuple[Summary, Summary] | None:
    if client is None:
        return None
    return sides[0].reference(client, pair[0]), sides[1].reference(client, pair[1])


class _Rows:
    """The clients of one side, each with one set of parameters."""

    def __init__(self, side: Side, units: Mapping[str, str], allowed: Sequence[str]) -> None:
        self._side = side
        self._allowed = allowed
        self._all = summarise(side.run.jobs, units=units)
        self._options = {
            (job.client, canonical(job.parameters)): result.client_options
            for job, result in zip(side.run.jobs, side.run.results, strict=True)
        }
        self.rows = [row for row in self._all if side.client in (None, row.client)]

    def described(self, row: Summary, *, with_options: bool) -> dict[str, Any]:
        """What must be the same of two rows: the parameters, and how the client was set up."""
        options = self._options[row.client, canonical(row.parameters)] if with_options else {}
        every = {**row.parameters, **{f"client.{name}": value for name, value in options.items()}}
        return {name: value for name, value in every.items() if not is_allowed(name, self._allowed)}

    def paired_with(self, other: _Rows) -> list[tuple[Summary, Summary]]:
        """Each row with the same of the other side."""
        alone = None in (self._side.client, other._side.client)
        pairs = []
        for row in self.rows:
            wanted = self.described(row, with_options=alone)
            found = [
                one
                for one in other.rows
                if other.described(one, with_options=alone) == wanted and (not alone or one.client == row.client)
            ]
            if len(found) > 1:
                raise IncomparableError(
                    f"{row.client} of {self._side.name} has several counterparts in {other._side.name} where "
                    f"{', '.join(self._allowed)} may differ; compare one of them as RUN@CLIENT, or allow less"
                )
            pairs += [(row, one) for one in found]
        if not pairs:
            raise IncomparableError(self._difference(other))
        return pairs

    def reference(self, client: str, row: Summary) -> Summary:
        """The client whose values a row's are divided by."""
        found = [one for one in self._all if one.client == client and one.parameters == row.parameters]
        if not found:
            raise IncomparableError(f"{self._side.name} has no client {client!r} with the parameters of {row.client}")
        return found[0]

    def _difference(self, other: _Rows) -> str:
        """Why no row has a counterpart: the fewest keys by which any two rows of one client differ."""
        best: dict[str, tuple[Any, Any]] | None = None
        alone = None in (self._side.client, other._side.client)
        for row in self.rows:
            own = self.described(row, with_options=alone)
            for one in other.rows:
                if alone and one.client != row.client:
                    continue
                theirs = other.described(one, with_options=alone)
                differing = {
                    name: (own.get(name, "absent"), theirs.get(name, "absent"))
                    for name in sorted({*own, *theirs})
                    if own.get(name, "absent") != theirs.get(name, "absent")
                }
                if best is None or len(differing) < len(best):
                    best = differing
        if best is None:
            names = [", ".join(dict.fromkeys(row.client for row in rows.rows)) for rows in (self, other)]
            return f"no client is in both runs: {self._side.name} has {names[0]}, {other._side.name} has {names[1]}"
        told = ", ".join(f"{name} is {first!r} and {second!r}" for name, (first, second) in best.items())
        return (
            f"{self._side.name} and {other._side.name} do not measure the same thing: {told}. --allow "
            f"{','.join(best)} compares them all the same"
        )


def _change(
    first: Summary,
    second: Summary,
    *,
    figure: str,
    kind: FigureKind,
    varying: Iterable[str],
    is_paired: bool,
    references: Sequence[Summary] | None,
    allows_invalid: bool,
) -> Change:
    client = first.client if first.client == second.client else f"{first.client} → {second.client}"
    here = Change(
        client=client,
        parameters={name: first.parameters[name] for name in varying if name in first.parameters},
        figure=figure,
        unit=kind.unit,
        better=kind.better,
    )
    if second.status is not Status.OK and first.status is Status.OK:
        return replace(here, effect=Effect.WORSE, reason=f"it fails now: {second.failures[0]}")
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
        if is_paired and references is None:
            found = compare(replace(second, parameters=first.parameters), first, figure=figure)
            return _judged(here, found.ratio, found.interval, found.obstacle)
        values = [
            _values(summary, figure, None if references is None else references[place])
            for place, summary in enumerate((first, second))
        ]
    except IncomparableError as error:
        return replace(here, reason=str(error))
    obstacle = unpaired_obstacle(values[1], values[0])
    interval = None if obstacle else unpaired_ratio_interval(values[1], values[0])
    return _judged(here, unpaired_ratio(values[1], values[0]), interval, obstacle)


def _doubts(whose: str, summary: Summary, when: str) -> list[str]:
    of_other = "" if whose == "its" else f" of {summary.client}"
    return [
        f"{when}{of_other}, {mark.repeats} of {summary.repeats} repeats {mark.state} ({mark.rule}): {mark.reason}"
        for mark in summary.marks
    ]


def _invalid(whose: str, summary: Summary, when: str) -> list[str]:
    if summary.state is not State.INVALID:
        return []
    count = summary.repeats_by_state[State.INVALID]
    reasons = "; ".join(mark.reason for mark in summary.marks if mark.state is State.INVALID)
    return [f"{whose} figures {when} are invalid in {count} of {summary.repeats} repeats: {reasons}"]


def _values(summary: Summary, figure: str, reference: Summary | None) -> list[float]:
    """One value a repeat; divided by the reference's of the same repeat, where there is one."""
    own = summary.figures[figure].by_repeat
    if reference is None:
        values = list(own.values())
    else:
        theirs = reference.figures[figure].by_repeat
        values = [value / theirs[repeat] for repeat, value in own.items() if theirs.get(repeat)]
    if not values or min(values) <= 0:
        raise IncomparableError(summary.figures[figure].reason or f"{summary.client} has no {figure} above 0")
    return values


def _judged(here: Change, ratio: float, interval: Interval | None, obstacle: str | None) -> Change:
    if interval is None or 1.0 in interval:
        effect = Effect.UNDECIDED
    elif here.better is Better.NEITHER:
        effect = Effect.DIFFERENT
    else:
        effect = Effect.BETTER if (ratio > 1) == (here.better is Better.HIGHER) else Effect.WORSE
    return replace(here, ratio=ratio, interval=interval, effect=effect, reason=obstacle)


def _check_hosts(base: Side, candidate: Side, allowed: Sequence[str]) -> None:
    if "host" in allowed:
        return
    # A launcher may have run the jobs on another machine.
    hosts = [host_class(side.run.results[0].host or side.run.host) for side in (base, candidate)]
    # Results of earlier versions do not tell the cloud's kind of a machine, nor does a machine of one's own.
    common = [name for name in hosts[0] if name in hosts[1]]
    differing = [
        f"{name} is {hosts[0][name]!r} and {hosts[1][name]!r}" for name in common if hosts[0][name] != hosts[1][name]
    ]
    if differing:
        raise IncomparableError(
            f"{base.name} and {candidate.name} ran on machines of two classes: {', '.join(differing)}. --allow host "
            "compares them all the same"
        )
