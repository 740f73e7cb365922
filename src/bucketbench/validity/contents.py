"""The rule of the content: whether anything of what arrived was held against what is stored."""

from __future__ import annotations

from bucketbench.records import State
from bucketbench.validity.evidence import Evidence, NotJudgedError

__all__ = ["unverified"]


def unverified(evidence: Evidence) -> tuple[State, str] | None:
    """Doubtful where the content of nothing was compared, in the measured passes or the warm-up: all may be wrong."""
    found = evidence.verification
    if found is None or "checked" not in found:
        raise NotJudgedError("the results do not have what was compared")
    by_size = found.get("checked_by_size", 0)
    if found["checked"] - by_size + found.get("checked_in_warmup", 0) > 0:
        return None
    return State.DOUBTFUL, (
        "nothing that arrived was compared with the content that is stored (limit 1)"
        + (f", key and size of {by_size:,} were: that content is not known" if by_size else "")
    )
