"""Which candidate to take, how surely it is the best, and what would be lost if it is not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bucketbench.advice.candidates import Candidate, Question
from bucketbench.statistics import Better, Comparison, IncomparableError, compare

__all__ = ["Advice", "Rival", "advise"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Rival:
    """Another candidate against the best one.

    Args:
        candidate: the other one.
        ratio: how many times better the best one is.
        comparison: of the two, the best one first where a higher value is better; None where they cannot be compared.
        obstacle: why it is not known which is better; None where the interval of the ratio says it.
        lost: the share of the figure that is lost at most if the other one is better; None where there is no interval.
    """

    candidate: Candidate
    ratio: float
    comparison: Comparison | None
    obstacle: str | None
    lost: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Advice:
    """An answer.

    Args:
        question: what it answers.
        best: whom to take; None where there is no basis for advice.
        rivals: all others, the next best first.
    """

    question: Question
    best: Candidate | None
    rivals: tuple[Rival, ...]

    @property
    def undecided(self) -> list[Rival]:
        """Those that may be as good or better, for all that is known."""
        return [rival for rival in self.rivals if rival.obstacle is not None]


def advise(question: Question) -> Advice:
    """Answer a question by what was measured: the best median, held against each other candidate repeat by repeat."""
    if not question.candidates:
        return Advice(question=question, best=None, rivals=())
    best, *others = question.candidates
    return Advice(question=question, best=best, rivals=tuple(_rivals(best, others, question)))


def _rivals(best: Candidate, others: Sequence[Candidate], question: Question) -> list[Rival]:
    return [_rival(best, other, question) for other in others]


def _rival(best: Candidate, other: Candidate, question: Question) -> Rival:
    # Repeats of all points of a run are interleaved, so that those of two points are pairs, whatever was swept.
    same = replace(other.summary, parameters=best.summary.parameters)
    above, below = (best.summary, same) if question.better is not Better.LOWER else (same, best.summary)
    medians = [summary.figures[question.figure].median or 0.0 for summary in (above, below)]
    try:
        found = compare(above, below, figure=question.figure)
    except IncomparableError as error:
        return Rival(candidate=other, ratio=medians[0] / medians[1], comparison=None, obstacle=str(error), lost=None)
    if found.interval is None:
        return Rival(candidate=other, ratio=found.ratio, comparison=found, obstacle=found.obstacle, lost=None)
    is_sure = found.interval.low > 1
    return Rival(
        candidate=other,
        ratio=found.ratio,
        comparison=found,
        obstacle=None if is_sure else "the interval of their ratio does not lie above 1",
        lost=max(1 - found.interval.low, 0.0),
    )
