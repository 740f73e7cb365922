"""The rules of the host's processors: who else had them."""

from __future__ import annotations

from typing import Final

from bucketbench.records import State
from bucketbench.validity.evidence import Evidence, NotJudgedError

__all__ = ["OTHERS_SHARE", "STEAL_SHARE", "other_load", "steal"]

STEAL_SHARE: Final = 0.02
"""Share of the processors' time that the hypervisor may give to other guests. *Source*: ours: less than what the
repeats of a job on a quiet machine differ by; a machine of its own has none."""

OTHERS_SHARE: Final = 0.10
"""Share of the processors' time that processes beside the job and its testbed may use. *Source*: ours: what the kernel
and a desktop do of themselves, and the sweep's own process, is less."""

_NOT_READ: Final = "the host's processor times could not be read"


def steal(evidence: Evidence) -> tuple[State, str] | None:
    """Doubtful where a hypervisor took processors away."""
    share = max(_shares(evidence, of_job=False), default=None)
    if share is None:
        raise NotJudgedError(_NOT_READ)
    if share <= STEAL_SHARE:
        return None
    return State.DOUBTFUL, (
        f"the hypervisor gave {share:.0%} of the processors' time to other guests (steal, limit {STEAL_SHARE:.0%})"
    )


def other_load(evidence: Evidence) -> tuple[State, str] | None:
    """Doubtful where other processes kept the machine busy."""
    if evidence.details.get("reads_through") == "mount":
        raise NotJudgedError("what serves the mounted directory is another process, and no stranger")
    share = max(_shares(evidence, of_job=True), default=None)
    if share is None:
        raise NotJudgedError(_NOT_READ)
    if share <= OTHERS_SHARE:
        return None
    return State.DOUBTFUL, (
        f"other processes used {share:.0%} of the processors' time (limit {OTHERS_SHARE:.0%}): measure on a machine "
        "that does nothing else"
    )


def _shares(evidence: Evidence, *, of_job: bool) -> list[float]:
    """For each machine the share that others used, or that was stolen."""
    windows, shares = evidence.windows, []
    for number, ranks in enumerate(evidence.of_machines()):
        first = ranks[0]  # every rank reads the same counters of its machine
        passed_s = evidence.grown(first, lambda one: one.host_passed_s, windows, absent=_NOT_READ)
        if passed_s <= 0:
            raise NotJudgedError("the measured time is too short for the kernel's processor times")
        if of_job:
            busy_s = evidence.grown(first, lambda one: one.host_busy_s, windows, absent=_NOT_READ)
            own_s = sum(
                sorted(evidence.grown(rank, lambda one: one.cpu_s, windows, absent=_NOT_READ) for rank in ranks)
            )
            if number == 0 and evidence.server is not None:  # the testbed is on the first machine
                own_s += evidence.server.processor_s or 0.0
            shares.append(max(busy_s - own_s, 0.0) / passed_s)
        else:
            stolen_s = evidence.grown(first, lambda one: one.host_steal_s, windows, absent=_NOT_READ)
            shares.append(stolen_s / passed_s)
    return shares
