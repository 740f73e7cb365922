"""The measured epochs as stretches of time, and what was used within them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from bucketbench.records import Operation, OperationKind, Phase, UsageSample

__all__ = ["NO_WINDOW", "Window", "by_epoch", "by_rank", "growth", "measured_windows", "samples_within", "windows_over"]

_Record = TypeVar("_Record", Operation, UsageSample)

NO_WINDOW: Final = "nothing was measured to its end"
"""The reason for having no figure where nothing was measured to its end."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Window:
    """A measured stretch, such as an epoch, from the first rank's start to the last rank's end, in seconds of the
    monotonic clock.
    """

    epoch: int
    started_s: float
    ended_s: float

    @property
    def duration_s(self) -> float:
        """Seconds from start to end; the slowest rank decides."""
        return self.ended_s - self.started_s


def measured_windows(operations: Iterable[Operation], kind: OperationKind = OperationKind.EPOCH) -> list[Window]:
    """What was measured of one kind, such as the epochs, in order of time; see ``windows_over``."""
    return windows_over(one for one in operations if one.kind is kind and one.phase is Phase.MEASURE)


def windows_over(operations: Iterable[Operation]) -> list[Window]:
    """The stretches of time that operations take, one for all of a number whatever the ranks, in order of time."""
    spans: dict[int, tuple[float, float]] = {}
    for one in operations:
        began_s, ended_s = spans.get(one.epoch, (one.started_s, one.ended_s))
        spans[one.epoch] = min(began_s, one.started_s), max(ended_s, one.ended_s)
    found = [Window(epoch=epoch, started_s=began_s, ended_s=ended_s) for epoch, (began_s, ended_s) in spans.items()]
    return sorted(found, key=lambda window: (window.started_s, window.epoch))


def by_rank(records: Iterable[_Record]) -> dict[int, list[_Record]]:
    """Operations or usage samples of each rank, in the order of the ranks."""
    found: dict[int, list[_Record]] = {}
    for one in records:
        found.setdefault(one.rank, []).append(one)
    return dict(sorted(found.items()))


def by_epoch(operations: Iterable[Operation]) -> dict[int, list[Operation]]:
    """The operations of each epoch, listing or checkpoint."""
    found: dict[int, list[Operation]] = {}
    for one in operations:
        found.setdefault(one.epoch, []).append(one)
    return found


def growth(samples: Sequence[UsageSample], windows: Sequence[Window], counter: Callable[[UsageSample], float]) -> float:
    """How much a growing counter grew within the windows, its unit being the counter's.

    It is read from the last sample before a window to the first one after it. The harness takes a sample right before
    and right after each epoch, so that these are the samples of its edges. Interpolating would be worse: a sample takes
    some milliseconds, in which nothing is measured, and the counter does not grow evenly from there. Windows without a
    sample between them are taken together, so that nothing counts twice.

    Args:
        samples: in order of time.
        windows: in order of time.
        counter: reads the counter from a sample.

    Raises:
        LookupError: where there is no sample before the first or after the last window.
    """
    spans: list[tuple[int, int]] = []
    for first, last in _spans(samples, windows):
        if spans and first < spans[-1][1]:
            first, last = spans[-1][0], max(last, spans[-1][1])
            spans.pop()
        spans.append((first, last))
    return sum(counter(samples[last]) - counter(samples[first]) for first, last in spans)


def _spans(samples: Sequence[UsageSample], windows: Iterable[Window]) -> Iterator[tuple[int, int]]:
    """Positions of the last sample before each window and of the first one after it."""
    times_s = [sample.at_s for sample in samples]
    for window in windows:
        first, last = bisect_right(times_s, window.started_s) - 1, bisect_left(times_s, window.ended_s)
        if first < 0 or last == len(times_s):
            raise LookupError("the usage samples do not span the measured epochs")
        yield first, last


def samples_within(samples: Sequence[UsageSample], windows: Iterable[Window]) -> list[UsageSample]:
    """The samples taken within the windows and the nearest one on each side of each window, in order of time."""
    times = [sample.at_s for sample in samples]
    chosen: set[int] = set()
    for window in windows:
        first = max(bisect_right(times, window.started_s) - 1, 0)
        last = min(bisect_left(times, window.ended_s), len(times) - 1)
        chosen.update(range(first, last + 1))
    return [samples[index] for index in sorted(chosen)]
