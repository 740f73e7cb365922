"""What the jobs of a setting have measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bucketbench.records import Mark, State
from bucketbench.results.job import JobResult
from bucketbench.statistics.percentiles import median
from bucketbench.statistics.summary import RepeatedMark, repeated_marks

__all__ = ["Measured", "Setting"]

Setting = tuple[str, ...]
"""The overrides by which a setting differs from the reference, which has none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """The figures of one setting, of jobs that were measured in turns with those of others.

    Args:
        setting: which one.
        speeds: what is to be as high as it can, by the number of the repeat. A repeat that is not valid has none.
        memory_mib: the most that one of them used; None where it was not measured.
        failure: why a job failed, or why no repeat has such a figure; None where one has and none failed.
        repeats: how many jobs it had.
        marks: the rules of a valid measurement that some of them broke.
    """

    setting: Setting
    speeds: Mapping[int, float] = field(default_factory=dict)
    memory_mib: float | None = None
    failure: str | None = None
    repeats: int = 0
    marks: Sequence[RepeatedMark] = ()

    @classmethod
    def of(cls, setting: Setting, jobs: Mapping[int, JobResult | str], *, figure: str, memory_figure: str) -> Measured:
        """The figures of the jobs of a setting.

        Args:
            setting: which one.
            jobs: the result of each repeat, or why there is none.
            figure: name of the figure that is to be as high as it can.
            memory_figure: name of the figure, in MiB, that is held against the limit.
        """
        speeds: dict[int, float] = {}
        memories: list[float | None] = []
        failures: list[str] = []
        absent: list[str] = []
        for repeat, job in jobs.items():
            found = job if isinstance(job, str) else _value(job, figure)
            if isinstance(found, str):
                (absent if isinstance(job, JobResult) and job.ok else failures).append(found)
                continue
            speeds[repeat] = found
            memory = _value(job, memory_figure) if isinstance(job, JobResult) else ""
            memories.append(None if isinstance(memory, str) else memory)
        known = [memory for memory in memories if memory is not None]
        return cls(
            setting=setting,
            speeds=speeds,
            memory_mib=max(known) if known and len(known) == len(memories) else None,
            failure=next(iter([*failures, *([] if speeds else absent)]), None),
            repeats=len(jobs),
            marks=repeated_marks(_marks(job) for job in jobs.values()),
        )

    @property
    def median(self) -> float:
        """Of the speeds, of which there has to be one."""
        return median(self.speeds.values())

    @property
    def doubtful(self) -> bool:
        """Whether a repeat of it is."""
        return any(mark.state is State.DOUBTFUL for mark in self.marks)

    def pairs(self, other: Measured) -> tuple[list[float], list[float]]:
        """The speeds of the repeats that both have, of this one and of the other."""
        both = sorted(self.speeds.keys() & other.speeds.keys())
        return [self.speeds[repeat] for repeat in both], [other.speeds[repeat] for repeat in both]

    def times(self, other: Measured) -> float:
        """How many times the other's speed this one has: the median over the repeats, in which both met one drift."""
        pairs: Sequence[tuple[float, float]] = list(zip(*self.pairs(other), strict=True))
        return median(mine / others for mine, others in pairs)

    def fits(self, limit_mib: float | None) -> bool:
        """Whether it is known to be within a limit of memory."""
        return limit_mib is None or (self.memory_mib is not None and self.memory_mib <= limit_mib)


def _marks(job: JobResult | str) -> Sequence[Mark]:
    return () if isinstance(job, str) or job.validity is None else job.validity.marks


def _value(job: JobResult, name: str) -> float | str:
    """A figure, or why there is none."""
    if not job.ok:
        return job.reason or "the job failed"
    if job.validity is not None and job.validity.state is State.INVALID:
        return f"invalid: {'; '.join(mark.reason for mark in job.validity.marks if mark.state is State.INVALID)}"
    figure = job.figures.get(name)
    if figure is None:
        return f"the scenario {job.scenario} has no figure {name}; it has: {', '.join(job.figures)}"
    if figure.value is None:
        return figure.reason or "it was not measured"
    return figure.value if figure.value > 0 else f"its {name} is {figure.value:g}"
