"""What a job left that tells whether it measured what it says."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from bucketbench.records import Operation, OperationKind, Phase, UsageSample
from bucketbench.statistics.figures import ServerCounts
from bucketbench.statistics.windows import Window, by_rank, growth, measured_windows

__all__ = ["ARRIVALS", "NOTHING_MEASURED", "NO_SERVER", "Evidence", "NotJudgedError"]

NOTHING_MEASURED: Final = "nothing was measured to its end"
NO_SERVER: Final = "the server tells nothing of itself: it is not the testbed"

ARRIVALS: Final = (OperationKind.FETCH, OperationKind.NEXT, OperationKind.LOAD)
"""Operations whose content came from storage."""


class NotJudgedError(Exception):
    """A rule has nothing to go by; the message says what is missing."""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """The records of a job, and what it tells of itself.

    Args:
        operations: of all ranks, in any order.
        usage: likewise.
        server: what the server counted while it was measured; None where it tells nothing.
        details: how it was measured.
        nodes: machines that its ranks ran on, as many on each.
        memory_bytes: of the machine; None where it is not known.
        verification: what was compared with what it should be, as results have it; None where they do not tell.
    """

    operations: Sequence[Operation]
    usage: Sequence[UsageSample]
    server: ServerCounts | None = None
    details: Mapping[str, str] = field(default_factory=dict)
    nodes: int = 1
    memory_bytes: int | None = None
    verification: Mapping[str, Any] | None = None

    @cached_property
    def windows(self) -> list[Window]:
        """The stretches of time that were measured; without epochs those of saves and loads, all ranks' together."""
        return measured_windows(self.operations) or [
            *measured_windows(self.operations, OperationKind.SAVE),
            *measured_windows(self.operations, OperationKind.LOAD),
        ]

    @cached_property
    def reading_windows(self) -> list[Window]:
        """The measured stretches of time in which content was read."""
        return measured_windows(self.operations) or measured_windows(self.operations, OperationKind.LOAD)

    @property
    def content_bytes(self) -> int:
        """Bytes of content that arrived in ``reading_windows``."""
        return sum(one.content_bytes for one in self.operations if one.phase is Phase.MEASURE and one.kind in ARRIVALS)

    @property
    def measured_s(self) -> float:
        """Seconds of the measured stretches.

        Raises:
            NotJudgedError: there are none.
        """
        # Sorted, because the sum of floats depends on their order.
        total_s = sum(sorted(window.duration_s for window in self.windows))
        if total_s <= 0:
            raise NotJudgedError(NOTHING_MEASURED)
        return total_s

    def of_machines(self) -> Iterator[list[list[UsageSample]]]:
        """The usage samples of each machine: those of each of its ranks, in order of time."""
        ranks = list(by_rank(self.usage).values())
        each = max(len(ranks) // self.nodes, 1)
        for first in range(0, len(ranks), each):
            yield [sorted(own, key=lambda one: (one.at_s, one.cpu_s)) for own in ranks[first : first + each]]

    def grown(
        self,
        samples: Sequence[UsageSample],
        counter: Callable[[UsageSample], float | None],
        windows: Sequence[Window],
        *,
        absent: str,
    ) -> float:
        """How much a counter grew within windows.

        Raises:
            NotJudgedError: it was not read, or no samples surround a window.
        """
        if not windows:
            raise NotJudgedError(NOTHING_MEASURED)
        if not samples or any(counter(one) is None for one in samples):
            raise NotJudgedError(absent)
        ordered = sorted(windows, key=lambda window: (window.started_s, window.ended_s))
        try:
            return growth(samples, ordered, lambda one: counter(one) or 0.0)
        except LookupError as error:
            raise NotJudgedError(str(error)) from error
