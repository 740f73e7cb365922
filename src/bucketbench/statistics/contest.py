"""Which client won, of those that were measured with one set of parameters and are of one style."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from bucketbench.records import State
from bucketbench.statistics.comparison import Comparison, ahead_of, figure_of, require_comparable
from bucketbench.statistics.figures import Better
from bucketbench.statistics.summary import IncomparableError, Status, Summary

__all__ = ["Contest", "Verdict", "hold_contests"]

_STYLE: Final = "style"  # the detail that says whether a job's data set was a map or an iterable


class Verdict(StrEnum):
    """How a contest ended."""

    WON = "won"
    UNDECIDED = "undecided"  # the interval of the first two does not lie above 1, or there is none
    UNCONTESTED = "uncontested"  # one contestant
    NO_CONTEST = "no contest"  # no contestant without failures and with valid figures


@dataclass(frozen=True, kw_only=True, slots=True)
class Contest:
    """The contestants of one style with one set of parameters, and which of them won by one figure.

    Args:
        figure: name of the figure that decides.
        parameters: what they have in common.
        style: ``map`` or ``iterable``, None where their jobs tell none.
        verdict: how it ended.
        ranking: the contestants that took part, the best median first.
        margin: the first against the second, above 1 where the first is better; None with fewer than two.
        rival: the first against the best client of another library, which may be the second; None where there is none.
        excluded: contestants that took no part, as a repeat of theirs failed, is invalid or lacks the figure.
    """

    figure: str
    parameters: Mapping[str, Any]
    style: str | None
    verdict: Verdict
    ranking: Sequence[Summary]
    margin: Comparison | None
    rival: Comparison | None
    excluded: Sequence[Summary]

    @property
    def winner(self) -> Summary | None:
        """The client that won, None where none did."""
        return self.ranking[0] if self.verdict is Verdict.WON else None


def hold_contests(summaries: Iterable[Summary], *, figure: str, better: Better = Better.HIGHER) -> list[Contest]:
    """For each style, find the contestant with the best median of a figure, and how sure it is that it is ahead.

    A map data set is compared with map data sets and a stream with streams: a stream reads ahead of the loop, which a
    map data set cannot, so that a ratio of the two says more about styles than about clients. A client that failed
    before its style was known takes part in none where any style is known. References take no part either, and neither
    does a contestant any of whose repeats failed, or is invalid.

    Args:
        summaries: of one scenario and parameter set, at least one.
        figure: name of the figure that decides.
        better: which of its values are better.

    Returns:
        At least one contest, that of the best contestant first.

    Raises:
        IncomparableError: where they do not belong together, a client is there twice, or there is none.
    """
    entries = list(summaries)
    if not entries:
        raise IncomparableError("a contest needs at least one client, got none")
    for entry in entries[1:]:
        require_comparable(entries[0], entry)
    names = [entry.client for entry in entries]
    if len(set(names)) != len(names):
        raise IncomparableError(f"a client takes part once, got {', '.join(sorted(names))}")
    by_style: dict[str | None, list[Summary]] = {}
    for entry in sorted(entries, key=lambda entry: _place(entry, figure, better)):
        if entry.role.competes:
            by_style.setdefault(entry.details.get(_STYLE), []).append(entry)
    unknown = by_style.get(None, [])
    if len(by_style) > 1 and all(entry.status is Status.FAILED for entry in unknown):
        by_style.pop(None, None)
    parameters = entries[0].parameters
    return [
        _contest(found, style, parameters=parameters, figure=figure, better=better)
        for style, found in (by_style or {None: list[Summary]()}).items()
    ]


def _contest(
    contestants: Sequence[Summary],
    style: str | None,
    *,
    parameters: Mapping[str, Any],
    figure: str,
    better: Better,
) -> Contest:
    ranking = [
        entry
        for entry in contestants
        if entry.status is Status.OK and entry.state is not State.INVALID and _has(entry, figure)
    ]
    margin = rival = None
    if len(ranking) > 1:
        margin = ahead_of(ranking[0], ranking[1], figure=figure, better=better)
        others = [entry for entry in ranking[1:] if _library(entry) != _library(ranking[0])]
        rival = ahead_of(ranking[0], others[0], figure=figure, better=better) if others else None
        verdict = Verdict.WON if margin.above else Verdict.UNDECIDED
    else:
        verdict = Verdict.UNCONTESTED if ranking else Verdict.NO_CONTEST
    return Contest(
        figure=figure,
        parameters=parameters,
        style=style,
        verdict=verdict,
        ranking=ranking,
        margin=margin,
        rival=rival,
        excluded=[entry for entry in contestants if all(entry is not ranked for ranked in ranking)],
    )


def _library(summary: Summary) -> str:
    return summary.library or summary.client


def _place(summary: Summary, figure: str, better: Better) -> tuple[bool, bool, float, str]:
    return summary.state is State.INVALID, *better.place(figure_of(summary, figure).median), summary.client


def _has(summary: Summary, figure: str) -> bool:
    return min(figure_of(summary, figure).by_repeat.values(), default=0.0) > 0
