"""One client against another, and the contest between all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from bucketbench.statistics.bootstrap import MINIMUM_REPEATS, Interval, ratio_interval
from bucketbench.statistics.summary import FigureSummary, IncomparableError, Status, Summary

__all__ = ["Comparison", "Contest", "Verdict", "compare", "hold_contest"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """How many times the figure of one client is that of another.

    Args:
        numerator: the client that is compared.
        denominator: the client that it is compared with.
        figure: the figure's name.
        ratio: the numerator's median over the denominator's.
        paired: whether both have the same repeats, which were then compared one by one.
        repeats: repeats of the side that has fewer.
        interval: of the ratio; None with fewer than ``MINIMUM_REPEATS`` repeats on a side.
    """

    numerator: str
    denominator: str
    figure: str
    ratio: float
    paired: bool
    repeats: int
    interval: Interval | None

    @property
    def decided(self) -> bool:
        """Whether the interval excludes that both are equal."""
        return self.interval is not None and 1.0 not in self.interval


class Verdict(StrEnum):
    """How a contest ended."""

    WON = "won"
    UNDECIDED = "undecided"  # the interval of the first two includes 1, or there is none
    UNCONTESTED = "uncontested"  # one contestant
    NO_CONTEST = "no contest"  # no contestant without failures


@dataclass(frozen=True, kw_only=True, slots=True)
class Contest:
    """The contestants with one set of parameters, and which of them won.

    Args:
        parameters: what they have in common.
        verdict: how it ended.
        ranking: the contestants that took part, the highest median first.
        margin: the first against the second; None with fewer than two.
        excluded: contestants that took no part, as a repeat of theirs failed or lacks the figure.
    """

    parameters: Mapping[str, Any]
    verdict: Verdict
    ranking: Sequence[Summary]
    margin: Comparison | None
    excluded: Sequence[Summary]

    @property
    def winner(self) -> Summary | None:
        """The client that won, None where none did."""
        return self.ranking[0] if self.verdict is Verdict.WON else None


def compare(numerator: Summary, denominator: Summary, *, figure: str) -> Comparison:
    """Compare one figure of two clients; swapping them inverts the ratio and its interval.

    Args:
        numerator: the client to compare.
        denominator: the client to compare it with.
        figure: the figure's name.

    Raises:
        IncomparableError: where scenario, parameters or unit differ, or the figure is unknown or has no value above 0.
    """
    _require_comparable(numerator, denominator)
    above, below = _figure(numerator, figure), _figure(denominator, figure)
    if above.unit != below.unit:
        raise IncomparableError(
            f"{figure} is in {above.unit} for {numerator.client} and {below.unit} for {denominator.client}"
        )
    for summary, values in ((numerator, above.by_repeat), (denominator, below.by_repeat)):
        if not values or min(values.values()) <= 0:
            raise IncomparableError(
                f"{summary.client} has no {figure} above 0 to compare: {dict(values) or 'no value'}"
            )
    above_median, below_median = above.median, below.median
    assert above_median is not None and below_median is not None  # both have values
    paired = above.by_repeat.keys() == below.by_repeat.keys()
    repeats = min(len(above.by_repeat), len(below.by_repeat))
    interval = None
    if repeats >= MINIMUM_REPEATS:
        order = sorted(above.by_repeat)
        interval = ratio_interval(
            [above.by_repeat[repeat] for repeat in order],
            [below.by_repeat[repeat] for repeat in (order if paired else sorted(below.by_repeat))],
            paired=paired,
        )
    return Comparison(
        numerator=numerator.client,
        denominator=denominator.client,
        figure=figure,
        ratio=above_median / below_median,
        paired=paired,
        repeats=repeats,
        interval=interval,
    )


def hold_contest(summaries: Iterable[Summary], *, figure: str) -> Contest:
    """Find the contestant with the highest median of a figure, and how sure it is that it is ahead of the second.

    References take no part, and neither does a contestant any of whose repeats failed.

    Args:
        summaries: of one scenario and parameter set, at least one.
        figure: name of the figure that decides.

    Raises:
        IncomparableError: where they do not belong together, a client is there twice, or there is none.
    """
    entries = list(summaries)
    if not entries:
        raise IncomparableError("a contest needs at least one client, got none")
    for entry in entries[1:]:
        _require_comparable(entries[0], entry)
    names = [entry.client for entry in entries]
    if len(set(names)) != len(names):
        raise IncomparableError(f"a client takes part once, got {', '.join(sorted(names))}")
    contestants = [entry for entry in entries if entry.role.competes]
    eligible = [entry for entry in contestants if entry.status is Status.OK and _has(entry, figure)]
    ranking = sorted(eligible, key=lambda entry: (-(entry.figures[figure].median or 0.0), entry.client))
    margin = compare(ranking[0], ranking[1], figure=figure) if len(ranking) > 1 else None
    if margin is not None:
        verdict = Verdict.WON if margin.decided else Verdict.UNDECIDED
    else:
        verdict = Verdict.UNCONTESTED if ranking else Verdict.NO_CONTEST
    return Contest(
        parameters=entries[0].parameters,
        verdict=verdict,
        ranking=ranking,
        margin=margin,
        excluded=[entry for entry in contestants if all(entry is not ranked for ranked in ranking)],
    )


def _has(summary: Summary, figure: str) -> bool:
    return min(_figure(summary, figure).by_repeat.values(), default=0.0) > 0


def _figure(summary: Summary, name: str) -> FigureSummary:
    if name not in summary.figures:
        raise IncomparableError(
            f"there is no figure {name!r}; {summary.client} has {', '.join(sorted(summary.figures))}"
        )
    return summary.figures[name]


def _require_comparable(one: Summary, other: Summary) -> None:
    if one.scenario != other.scenario:
        raise IncomparableError(
            f"{one.client} and {other.client} are not comparable: scenarios {one.scenario!r} and {other.scenario!r}"
        )
    absent = object()
    differing = sorted(
        name
        for name in {*one.parameters, *other.parameters}
        if one.parameters.get(name, absent) != other.parameters.get(name, absent)
    )
    if differing:
        details = ", ".join(
            f"{name} is {one.parameters.get(name, 'absent')!r} and {other.parameters.get(name, 'absent')!r}"
            for name in differing
        )
        raise IncomparableError(f"{one.client} and {other.client} are not comparable: {details}")
