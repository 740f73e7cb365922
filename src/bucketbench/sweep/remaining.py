"""How far a sweep is, and how long the rest of it may take."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Sequence
from statistics import median

from bucketbench.units import format_duration

__all__ = ["Remaining"]


class Remaining:
    """An estimate from the jobs that are over: those of the same kind, else of the same client, else all.

    Args:
        kinds: of each job, by its number: what jobs that take as long as one another have in common.
        clients: of each job.
        clock: in seconds.
    """

    def __init__(
        self, kinds: Sequence[Hashable], clients: Sequence[str], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._kinds = kinds
        self._clients = clients
        self._clock = clock
        self._took_s: dict[int, float] = {}
        self._failed: set[int] = set()
        self._done: set[int] = set()
        self._began_s: float | None = None
        self._under_way: frozenset[int] = frozenset()

    def begin(self, numbers: Sequence[int]) -> None:
        """Jobs begin now."""
        self._under_way, self._began_s = frozenset(numbers), self._clock()

    def end(self, number: int, *, took_s: float | None, ok: bool) -> None:
        """A job is over.

        Args:
            number: of the job.
            took_s: how long it took, None where that is not known.
            ok: whether it succeeded.
        """
        self._done.add(number)
        self._under_way -= {number}
        if took_s is not None:
            self._took_s[number] = took_s
        if not ok:
            self._failed.add(number)

    @property
    def jobs_left(self) -> int:
        """How many jobs are not over."""
        return len(self._kinds) - len(self._done)

    def seconds(self) -> float | None:
        """How long the rest may take; None where no job tells."""
        left = [number for number in range(len(self._kinds)) if number not in self._done]
        expected = [self._expected_s(number) for number in left]
        known = [one for one in expected if one is not None]
        if len(known) < len(expected) or (left and not known):
            return None
        passed_s = 0.0
        if self._under_way and self._began_s is not None:
            # The job that runs is not over yet, however long it takes.
            most_s = sum(one for number, one in zip(left, known, strict=True) if number in self._under_way)
            passed_s = min(self._clock() - self._began_s, most_s)
        return sum(known) - passed_s

    def text(self) -> str:
        """In words: how many jobs are over, how many of them failed, and the estimate."""
        failed = f", {len(self._failed)} failed" if self._failed else ""
        left_s = self.seconds() if self.jobs_left else None
        estimate = "" if left_s is None else f", about {format_duration(left_s)} left (estimate)"
        return f"{len(self._done)} of {len(self._kinds)} jobs done{failed}{estimate}"

    def _expected_s(self, number: int) -> float | None:
        for alike in (self._kinds, self._clients, None):
            took_s = [one_s for other, one_s in self._took_s.items() if alike is None or alike[other] == alike[number]]
            if took_s:
                return median(took_s)
        return None
