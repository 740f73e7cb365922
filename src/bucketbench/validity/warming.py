"""The rule of the warm-up."""

from __future__ import annotations

from bucketbench.records import State
from bucketbench.statistics.warm_up import MOST_PASSES, is_warm, warm_up_rates
from bucketbench.validity.evidence import Evidence

__all__ = ["warm_up"]


def warm_up(evidence: Evidence) -> tuple[State, str] | None:
    """Doubtful where the last warm-up passes were still becoming faster."""
    rates = warm_up_rates(evidence.operations)
    if len(rates) < MOST_PASSES or is_warm(rates):
        return None
    return State.DOUBTFUL, (
        f"after {len(rates)} warm-up passes (limit {MOST_PASSES}) the client still became faster: raise warmup_samples"
    )
