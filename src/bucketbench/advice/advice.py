"""Which candidate to take, how surely it is the best, and what would be lost if it is not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bucketbench.advice.candidates import Candidate, Question
from bucketbench.statistics import Comparison, ahead_of

__all__ = ["Advice", "Rival", "advise"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Rival:
    """Another candidate against the best one.

    Args:
        candidate: the other one.
        comparison: of the two: how many times better the best one is.
        obstacle: why it is not known which is better; None where the interval of the ratio says it.
        lost: the share of the figure that is lost at most if the other one is better; None where there is no interval.
    """

    candidate: Candidate
    comparison: Comparison
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
    """Answer a question by what was measured: the best median, held against each other candidate repeat by repeat.

    Raises:
        IncomparableError: candidates have the figure in several units.
    """
    if not question.candidates:
        return Advice(question=question, best=None, rivals=())
    best, *others = question.candidates
    return Advice(question=question, best=best, rivals=tuple(_rivals(best, others, question)))


def _rivals(best: Candidate, others: Sequence[Candidate], question: Question) -> list[Rival]:
    return [_rival(best, other, question) for other in others]


def _rival(best: Candidate, other: Candidate, question: Question) -> Rival:
    # Repeats of all points of a run are interleaved, so that those of two points are pairs, whatever was swept.
    same = replace(other.summary, parameters=best.summary.parameters)
    found = ahead_of(best.summary, same, figure=question.figure, better=question.better)
    if found.interval is None:
        return Rival(candidate=other, comparison=found, obstacle=found.obstacle, lost=None)
    return Rival(
        candidate=other,
        comparison=found,
        obstacle=None if found.above else "the interval of their ratio does not lie above 1",
        lost=max(1 - found.interval.low, 0.0),
    )
