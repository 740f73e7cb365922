"""The measured epochs as stretches of time, and what was used within them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from bucketbench.records import Operation, OperationKind, Phase, UsageSample

__all__ = ["Window", "growth", "measured_windows", "samples_within"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Window:
    """One measured epoch, from the first rank's start to the last rank's end, in seconds of the monotonic clock."""

    epoch: int
    started_s: float
    ended_s: float

    @property
    def duration_s(self) -> float:
        """Seconds from start to end; the slowest rank decides."""
        return self.ended_s - self.started_s


def measured_windows(operations: Iterable[Operation]) -> list[Window]:
    """The measured epochs in order of time, one window an epoch whatever the number of ranks."""
    windows: dict[int, Window] = {}
    for operation in operations:
        if operation.kind is OperationKind.EPOCH and operation.phase is Phase.MEASURE:
            known = windows.get(operation.epoch)
            windows[operation.epoch] = Window(
                epoch=operation.epoch,
                started_s=operation.started_s if known is None else min(known.started_s, operation.started_s),
                ended_s=operation.ended_s if known is None else max(known.ended_s, operation.ended_s),
            )
    return sorted(windows.values(), key=lambda window: (window.started_s, window.epoch))


def growth(samples: Sequence[UsageSample], windows: Sequence[Window], counter: Callable[[UsageSample], float]) -> float:
    """How much a growing counter grew within the windows, its unit being the counter's.

    The counter at an edge is interpolated between the samples on both sides of it. The harness takes a sample at every
    edge of an epoch, so that the interpolation spans microseconds, not the sampler's interval.

    Args:
        samples: in order of time.
        windows: that do not overlap.
        counter: reads the counter from a sample.

    Raises:
        LookupError: where an edge lies before the first or after the last sample.
    """

    times = [sample.at_s for sample in samples]

    def at(moment_s: float) -> float:
        after = bisect_left(times, moment_s)
        if not times or after == len(times) or moment_s < times[0]:
            raise LookupError("the usage samples do not span the measured epochs")
        if times[after] == moment_s:
            return counter(samples[after])
        before = after - 1
        fraction = (moment_s - times[before]) / (times[after] - times[before])
        return counter(samples[before]) + fraction * (counter(samples[after]) - counter(samples[before]))

    return sum(at(window.ended_s) - at(window.started_s) for window in windows)


def samples_within(samples: Sequence[UsageSample], windows: Iterable[Window]) -> list[UsageSample]:
    """The samples taken within the windows and the nearest one on each side of each window, in order of time."""
    times = [sample.at_s for sample in samples]
    chosen: set[int] = set()
    for window in windows:
        first = max(bisect_right(times, window.started_s) - 1, 0)
        last = min(bisect_left(times, window.ended_s), len(times) - 1)
        chosen.update(range(first, last + 1))
    return [samples[index] for index in sorted(chosen)]
