"""Advice in three lines, and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from bucketbench.advice.advice import Advice, Rival
from bucketbench.advice.candidates import Candidate
from bucketbench.report.cells import number_text
from bucketbench.report.values import parameter_text
from bucketbench.report.wording import broken_rules, plural
from bucketbench.statistics import CONFIDENCE

__all__ = ["as_json", "as_text"]

_MOST_NAMED: Final = 3
_STYLE: Final = "style"
_COST: Final = "cost_per_"
_TIMES: Final = 1000


def as_text(advices: Sequence[Advice], *, currency: str) -> str:
    """Three lines for each question; a heading where there are several."""
    parts = []
    for advice in advices:
        question = advice.question
        heading = f"{question.contest}{f', {question.title}' if question.title else ''}:"
        lines = _lines(advice, currency)
        parts.append("\n".join([heading, *(f"  {line}" for line in lines)] if len(advices) > 1 else lines))
    return "\n\n".join(parts)


def as_json(advices: Sequence[Advice], *, currency: str, notes: Sequence[str]) -> list[dict[str, Any]]:
    """The advice as plain JSON values, each with what a reader must know of the run."""
    return [
        {
            "figure": advice.question.figure,
            "unit": advice.question.unit,
            "given": dict(advice.question.given),
            "best": None if advice.best is None else _json_candidate(advice.best, advice.question.figure),
            "decided": advice.best is not None and not advice.undecided and bool(advice.rivals),
            "others": [
                {
                    **_json_candidate(rival.candidate, advice.question.figure),
                    "ratio": rival.comparison.ratio,
                    "interval": _json_interval(rival),
                    "undecided": rival.obstacle,
                    "lost_at_most": rival.lost,
                }
                for rival in advice.rivals
            ],
            "left_out": [{"candidate": label, "reason": reason} for label, reason in advice.question.left_out],
            "currency": currency,
            "notes": list(notes),
        }
        for advice in advices
    ]


def _lines(advice: Advice, currency: str) -> list[str]:
    question, best = advice.question, advice.best
    left_out = "; ".join(f"{label}: {reason}" for label, reason in question.left_out)
    if best is None:
        return [f"Take none: the run is no basis for advice on {question.contest} ({left_out or 'no contestant ran'})."]
    target = f" for {parameter_text(question.target)}" if question.target else ""
    styles = "".join(f"; of {style} data sets {one.label}" for style, one in _best_of_other_styles(advice).items())
    alone = f" ({question.untried[0]} was tried with this value alone)" if question.untried else ""
    median = number_text(best.summary.figures[question.figure].median)
    return [
        f"Take {best.overrides}{target}: {median} {question.unit}{alone}{styles}.",
        f"How sure: {_how_sure(advice)}{_doubted(advice)}{f'. Left out: {left_out}' if left_out else ''}.",
        f"If that is wrong: {'; '.join([_lost(advice), _memory(advice), *_money(advice, currency)])}.",
    ]


def _best_of_other_styles(advice: Advice) -> dict[str, Candidate]:
    """The best of each other style of data set, since a loop over one may not be one over the other."""
    assert advice.best is not None
    found: dict[str, Candidate] = {}
    for candidate in advice.question.candidates:
        style = candidate.summary.details.get(_STYLE)
        if style is not None and style != advice.best.summary.details.get(_STYLE):
            found.setdefault(style, candidate)
    return found


def _how_sure(advice: Advice) -> str:
    if not advice.rivals:
        return "nothing else was measured that could be taken, so that it is the best of one"
    if not advice.undecided:
        return (
            f"it is ahead of {plural(len(advice.rivals), 'other')}, each at {CONFIDENCE:.0%} confidence; the next is "
            f"{_against(advice.rivals[0])}"
        )
    names = [_against(rival) for rival in advice.undecided[:_MOST_NAMED]]
    more = len(advice.undecided) - len(names)
    reasons = "; ".join(dict.fromkeys(rival.obstacle or "" for rival in advice.undecided))
    return (
        f"undecided between it and {plural(len(advice.undecided), 'other')}: {', '.join(names)}"
        f"{f' and {more} more' if more else ''} ({reasons})"
    )


def _doubted(advice: Advice) -> str:
    """Which of those that the advice names have doubtful figures, by which rules, and what was found."""
    assert advice.best is not None
    rivals = [rival.candidate for rival in (advice.undecided or advice.rivals)[:_MOST_NAMED]]
    named = {one.label: one.summary for one in (advice.best, *rivals, *_best_of_other_styles(advice).values())}
    return "".join(f"; {line}" for line in broken_rules(named.items()))


def _against(rival: Rival) -> str:
    interval = rival.comparison.interval
    between = "" if interval is None else f" ({interval.low:.2f} to {interval.high:.2f}, {interval.confidence:.1%})"
    return f"{rival.candidate.label}, of which it has {rival.comparison.ratio:.2f} times the value{between}"


def _lost(advice: Advice) -> str:
    contest = advice.question.contest
    if not advice.rivals:
        return "what another client would give is not known"
    if not advice.undecided:
        return (
            f"no {contest} is lost to anything that was measured; the next best would have "
            f"{1 / advice.rivals[0].comparison.ratio:.0%} of it"
        )
    known = [rival for rival in advice.undecided if rival.lost is not None]
    if len(known) < len(advice.undecided):
        return f"how much {contest} is lost at most is not known without an interval"
    worst = max(known, key=lambda rival: rival.lost or 0.0)
    return f"at most {worst.lost:.1%} of the {contest} is lost, to {worst.candidate.label}"


def _alternatives(advice: Advice) -> list[Candidate]:
    """Those that could have been taken instead: who may be as good, or else the next best."""
    return [rival.candidate for rival in advice.undecided or advice.rivals[:1]]


def _memory(advice: Advice) -> str:
    assert advice.best is not None
    own = advice.best.memory_mib
    if own is None:
        return "its memory is not known"
    known = [(one.memory_mib, one.label) for one in _alternatives(advice) if one.memory_mib is not None]
    told = f"it takes {own:,.0f} MiB of memory"
    if not known:
        return told
    least, label = min(known)
    difference = own - least
    if f"{abs(difference):,.0f}" == "0":
        return f"{told}, as much as {label}"
    return f"{told}, {abs(difference):,.0f} MiB {'more' if difference > 0 else 'less'} than {label}"


def _money(advice: Advice, currency: str) -> list[str]:
    """What each kind of work costs, and what it would with the cheapest of the alternatives."""
    assert advice.best is not None
    told = []
    for name, own in advice.best.costs.items():
        work = name.removeprefix(_COST)
        if own is None:
            told.append(f"what each {work} costs is not known")
            continue
        known = [(cost, one.label) for one in _alternatives(advice) if (cost := one.costs.get(name)) is not None]
        text = f"{_TIMES:,} {work}s cost {number_text(own, scale=_TIMES)} {currency}"
        if known:
            least, label = min(known)
            beside = number_text(least, scale=_TIMES)
            text += f", with {label} {'as much' if beside == number_text(own, scale=_TIMES) else beside}"
        told.append(text)
    return told


def _json_candidate(candidate: Candidate, figure: str) -> dict[str, Any]:
    return {
        "client": candidate.client,
        "settings": dict(candidate.settings),
        "median": candidate.summary.figures[figure].median,
        "validity": None if candidate.summary.state is None else str(candidate.summary.state),
        "marks": [asdict(mark) for mark in candidate.summary.marks],
        "memory_mib": candidate.memory_mib,
        "costs": dict(candidate.costs),
    }


def _json_interval(rival: Rival) -> dict[str, float] | None:
    interval = rival.comparison.interval
    if interval is None:
        return None
    return {"low": interval.low, "high": interval.high, "confidence": interval.confidence}
