"""What arrived in each second of a job, and what its processes used meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from bucketbench.records import Operation, OperationKind, Phase, UsageSample
from bucketbench.statistics.windows import Window, measured_windows

__all__ = [
    "SEGMENT_S",
    "Moment",
    "Segment",
    "in_segments_of",
    "memory_over_time",
    "operation_windows",
    "throughput_over_time",
]

SEGMENT_S: Final = 1.0
"""Length of a segment, in seconds. *Source*: ours, after minio warp, whose time lines have segments of a second."""

_LEAST_MEASURED: Final = 0.1  # of a segment


@dataclass(frozen=True, kw_only=True, slots=True)
class Segment:
    """A stretch of a job's time.

    Args:
        start_s: seconds from the job's first measured moment.
        measured_s: how much of the segment was measured; the rest lies between two epochs or two checkpoints.
        amount: what arrived within, in the unit that was asked for.
    """

    start_s: float
    measured_s: float
    amount: float

    @property
    def rate(self) -> float:
        """The amount a measured second."""
        return self.amount / self.measured_s


@dataclass(frozen=True, kw_only=True, slots=True)
class Moment:
    """Memory in use, in bytes, the most of a stretch that begins ``start_s`` after the job's first measured moment."""

    start_s: float
    memory_bytes: int


def operation_windows(operations: Sequence[Operation], kind: OperationKind) -> list[Window]:
    """The stretches of time in which operations of a kind are measured.

    They are the measured epochs; where a job has none, as those of checkpoints, the operations themselves, all ranks'
    together.
    """
    return measured_windows(operations) or measured_windows(operations, kind)


def throughput_over_time(
    operations: Sequence[Operation],
    kind: OperationKind,
    amount: Callable[[Operation], float],
    *,
    segment_s: float = SEGMENT_S,
) -> list[Segment]:
    """What the measured operations of one kind brought, segment by segment.

    An operation's amount is spread evenly over its time, as nothing tells when its bytes came.

    Args:
        operations: the job's, in any order.
        kind: the operations that count.
        amount: what one of them brought.
        segment_s: length of a segment in seconds.

    Returns:
        Each segment of which anything was measured, in order of time.
    """
    windows = operation_windows(operations, kind)
    if not windows:
        return []
    origin_s = _origin_s(operations, windows)
    measured_s, amounts = _Segments(segment_s), _Segments(segment_s)
    for window in windows:
        measured_s.spread(window.started_s - origin_s, window.ended_s - origin_s, window.duration_s)
    for one in sorted(operations, key=lambda one: (one.started_s, one.ended_s)):
        if one.kind is kind and one.phase is Phase.MEASURE:
            amounts.spread(one.started_s - origin_s, one.ended_s - origin_s, amount(one))
    return [
        Segment(start_s=index * segment_s, measured_s=measured_s.values[index], amount=amounts.values.get(index, 0.0))
        for index in sorted(measured_s.values)
        if measured_s.values[index] > 0
    ]


def in_segments_of(segment_s: float, segments: Iterable[Segment]) -> list[Segment]:
    """Segments put together to longer ones.

    One of which less than a tenth was measured is left out, unless there is no other: its rate would be chance.

    Args:
        segment_s: their length in seconds, a multiple of that of the others.
        segments: of a job, as ``throughput_over_time`` gives them, each at least ``SEGMENT_S`` long.
    """
    longer: dict[int, Segment] = {}
    for one in segments:
        index = int((one.start_s + SEGMENT_S / 2) / segment_s)
        known = longer.get(index, Segment(start_s=index * segment_s, measured_s=0.0, amount=0.0))
        longer[index] = replace(known, measured_s=known.measured_s + one.measured_s, amount=known.amount + one.amount)
    found = list(longer.values())
    return [one for one in found if one.measured_s >= _LEAST_MEASURED * segment_s] or found


def memory_over_time(
    operations: Sequence[Operation], usage: Iterable[UsageSample], *, most: int = 60, shortest_s: float = 0.25
) -> list[Moment]:
    """Memory in use from the first measured moment to the last, all ranks together.

    Args:
        operations: the job's.
        usage: its samples, in any order.
        most: moments that are given, at most; each is the highest of its stretch.
        shortest_s: the shortest stretch, in seconds.
    """
    windows = measured_windows(operations) or [
        Window(epoch=one.epoch, started_s=one.started_s, ended_s=one.ended_s)
        for one in operations
        if one.phase is Phase.MEASURE
    ]
    if not windows:
        return []
    origin_s, end_s = min(one.started_s for one in windows), max(one.ended_s for one in windows)
    stretch_s = max((end_s - origin_s) / most, shortest_s)
    highest: dict[int, dict[int, int]] = {}
    for sample in usage:
        if origin_s <= sample.at_s <= end_s:
            of_ranks = highest.setdefault(int((sample.at_s - origin_s) / stretch_s), {})
            of_ranks[sample.rank] = max(of_ranks.get(sample.rank, 0), sample.rss_bytes)
    ranks = max((len(of_ranks) for of_ranks in highest.values()), default=0)
    return [
        Moment(start_s=index * stretch_s, memory_bytes=sum(of_ranks.values()))
        for index, of_ranks in sorted(highest.items())
        if len(of_ranks) == ranks  # a sum without one of the ranks would look like memory that was given back
    ]


def _origin_s(operations: Iterable[Operation], windows: Sequence[Window]) -> float:
    """When the job's first measured operation began, of whatever kind, so that its time lines have one origin."""
    began = [one.started_s for one in operations if one.phase is Phase.MEASURE]
    return min([*began, windows[0].started_s])


class _Segments:
    """Amounts by the number of their segment."""

    def __init__(self, segment_s: float) -> None:
        self.values: dict[int, float] = {}
        self._segment_s = segment_s

    def spread(self, start_s: float, stop_s: float, amount: float) -> None:
        """Add an amount that came evenly between two moments."""
        first, last = int(start_s / self._segment_s), int(stop_s / self._segment_s)
        for index in range(first, last + 1):
            within_s = min(stop_s, (index + 1) * self._segment_s) - max(start_s, index * self._segment_s)
            share = within_s / (stop_s - start_s) if stop_s > start_s else 1.0
            if share > 0:
                self.values[index] = self.values.get(index, 0.0) + amount * share
