"""When a warm-up is over: as soon as further passes no longer become faster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bucketbench.records import Operation, OperationKind, Phase

__all__ = ["FASTER", "MOST_PASSES", "STABLE_PASSES", "is_warm", "warm_up_rates"]

FASTER: Final = 0.1
"""By how much a pass has to be faster than all before it to count as progress. *Source*: ours, what passes of some tens
of samples differ by anyway."""

STABLE_PASSES: Final = 2
"""Passes without progress, one after another, after which a client is warm. *Source*: ours; one may be chance."""

MOST_PASSES: Final = 10
"""Passes after which a warm-up ends whatever they were like. *Source*: ours, so that it takes seconds at most."""


def is_warm(rates: Sequence[float]) -> bool:
    """Whether the last passes brought no progress.

    *Source*: the idea is that of Georges, Buytaert and Eeckhout, "Statistically rigorous Java performance evaluation"
    (OOPSLA 2007), section 4.1: a steady state is found in the measurements and not assumed after a fixed number. They
    bound how much iterations vary; passes this short vary by chance, while what is not warm yet becomes faster.

    Args:
        rates: what each pass brought in a second, the first pass first.
    """
    best = 0.0
    idle = 0
    for rate in rates:
        idle = 0 if rate > best * (1 + FASTER) else idle + 1
        best = max(best, rate)
    return idle >= STABLE_PASSES


def warm_up_rates(operations: Sequence[Operation]) -> list[float]:
    """The samples a second of each warm-up pass of a job, in order; of several ranks, all together until the last."""
    passes = [one for one in operations if one.kind is OperationKind.EPOCH and one.phase is Phase.WARMUP]
    by_rank: dict[int, list[Operation]] = {}
    for one in sorted(passes, key=lambda one: (one.started_s, one.ended_s)):
        by_rank.setdefault(one.rank, []).append(one)
    rates = []
    for together in zip(*by_rank.values(), strict=False):
        took_s = max(one.ended_s for one in together) - min(one.started_s for one in together)
        if took_s > 0:
            rates.append(sum(one.samples for one in together) / took_s)
    return rates
