"""The rules of the host's processors: who else had them, and how much of them the job was allowed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from bucketbench.records import State, UsageSample
from bucketbench.validity.evidence import Evidence, NotJudgedError

__all__ = ["OTHERS_SHARE", "QUOTA_SHARE", "STEAL_SHARE", "cpu_quota", "other_load", "steal"]

STEAL_SHARE: Final = 0.02
"""Share of the processors' time that the hypervisor may give to other guests. *Source*: ours: less than what the
repeats of a job on a quiet machine differ by; a machine of its own has none."""

QUOTA_SHARE: Final = 0.05
"""Share of the periods of a quota of processor time in which it may stop the job. *Source*: ours: a stop lasts until
the period, mostly of 0.1 s, ends, so that one in 20 is what the 95th percentile of a short operation consists of."""

OTHERS_SHARE: Final = 0.10
"""Share of the processors' time that processes beside the job, its testbed and the harness may use. *Source*: ours:
what a desktop does of itself is less."""

_NOT_READ: Final = "the host's processor times could not be read"
_NO_QUOTA_TOLD: Final = "the system does not tell of quotas"
_MOST_NAMED: Final = 3
_LEAST_NAMED_SHARE: Final = 0.01

_Ranks = Sequence[Sequence[UsageSample]]  # the samples of each rank of a machine


@dataclass(frozen=True, kw_only=True, slots=True)
class _Load:
    """What others used of a machine's processors, in shares of their time: in all, and by command where that is known.

    Where some processes cannot be seen, those named are not all of it.
    """

    share: float
    by_command: Mapping[str, float] = field(default_factory=dict)

    @property
    def named(self) -> str:
        """The commands that used most, each with its share."""
        most = sorted(self.by_command.items(), key=lambda one: (-one[1], one[0]))[:_MOST_NAMED]
        told = [f"{command} {share:.0%}" for command, share in most if share >= _LEAST_NAMED_SHARE]
        unseen = self.share - sum(self.by_command.values())
        if self.by_command and unseen >= _LEAST_NAMED_SHARE:
            told.append(f"{unseen:.0%} by processes that cannot be seen from here")
        return f", of which {', '.join(told)}" if told else ""


def steal(evidence: Evidence) -> tuple[State, str] | None:
    """Doubtful where a hypervisor took processors away."""
    found = _worst(evidence, lambda _, ranks: _stolen(evidence, ranks), limit=STEAL_SHARE)
    if found is None:
        return None
    return State.DOUBTFUL, (
        f"the hypervisor gave {found.share:.0%} of the processors' time to other guests (steal, limit "
        f"{STEAL_SHARE:.0%})"
    )


def cpu_quota(evidence: Evidence) -> tuple[State, str] | None:
    """Doubtful where a quota of processor time, as containers have, stopped the job."""
    found = _worst(evidence, lambda _, ranks: _stopped(evidence, ranks), limit=QUOTA_SHARE)
    if found is None:
        return None
    return State.DOUBTFUL, (
        f"a quota of processor time, such as a container's limit, stopped the job in {found.share:.0%} of its periods "
        f"(limit {QUOTA_SHARE:.0%}): give it more processors, or take fewer workers"
    )


def other_load(evidence: Evidence) -> tuple[State, str] | None:
    """Doubtful where other processes kept the machine busy."""
    if evidence.details.get("reads_through") == "mount":
        raise NotJudgedError("what serves the mounted directory is another process, and no stranger")
    found = _worst(evidence, lambda place, ranks: _used_by_others(evidence, place, ranks), limit=OTHERS_SHARE)
    if found is None:
        return None
    return State.DOUBTFUL, (
        f"other processes used {found.share:.0%} of the processors' time (limit {OTHERS_SHARE:.0%}){found.named}: "
        "measure on a machine that does nothing else"
    )


def _worst(evidence: Evidence, of_machine: Callable[[int, _Ranks], _Load], *, limit: float) -> _Load | None:
    """The load of the machine that had most, where it is above the limit.

    Raises:
        NotJudgedError: of some machine it is not known, and none of the others is above the limit.
    """
    found, obstacles = [], []
    for place, ranks in enumerate(evidence.of_machines()):
        try:
            found.append(of_machine(place, ranks))
        except NotJudgedError as error:
            obstacles.append(error)
    worst = max(found, key=lambda one: one.share, default=None)
    if worst is not None and worst.share > limit:
        return worst
    if obstacles or worst is None:
        raise obstacles[0] if obstacles else NotJudgedError(_NOT_READ)
    return None


def _stolen(evidence: Evidence, ranks: _Ranks) -> _Load:
    first = ranks[0]  # every rank reads the same counters of its machine
    stolen_s = evidence.grown(first, lambda one: one.host_steal_s, evidence.windows, absent=_NOT_READ)
    return _Load(share=stolen_s / _passed_s(evidence, ranks))


def _stopped(evidence: Evidence, ranks: _Ranks) -> _Load:
    first, windows = ranks[0], evidence.windows
    periods = evidence.grown(first, lambda one: one.quota_periods, windows, absent=_NO_QUOTA_TOLD)
    stopped = evidence.grown(first, lambda one: one.quota_throttled_periods, windows, absent=_NO_QUOTA_TOLD)
    return _Load(share=stopped / periods if periods else 0.0)


def _used_by_others(evidence: Evidence, place: int, ranks: _Ranks) -> _Load:
    """What is left of the busy time, or what the other processes tell of themselves: whichever is less.

    What is left has errors of both its terms: the kernel counts the busy time by looking who runs at each tick, and the
    time of processes exactly. What processes tell includes those on processors that the job may not use, and what one
    that ended had used before, should it have changed its parent. Inside a container it is not all.
    """
    passed_s = _passed_s(evidence, ranks)
    left_s = max(_busy_s(evidence, ranks[0]) - _own_s(evidence, place, ranks), 0.0)
    told = [one for one in ranks[0] if one.others_cpu_s is not None]
    if not told:
        return _Load(share=left_s / passed_s)
    used_s = {
        command: evidence.grown(told, partial(_cpu_s_of, command), evidence.windows, absent=_NOT_READ)
        for command in sorted({command for one in told for command in one.others_cpu_s or ()})
    }
    told_s = sum(used_s.values())
    used_by_others_s = min(left_s, told_s) if all(one.others_are_all for one in told) else left_s
    # Where they tell of more than there was, the rest was on processors that the job may not use.
    scale = min(used_by_others_s / told_s, 1.0) if told_s else 1.0
    return _Load(
        share=used_by_others_s / passed_s,
        by_command={command: seconds * scale / passed_s for command, seconds in used_s.items()},
    )


def _cpu_s_of(command: str, sample: UsageSample) -> float:
    return (sample.others_cpu_s or {}).get(command, 0.0)


def _passed_s(evidence: Evidence, ranks: _Ranks) -> float:
    passed_s = evidence.grown(ranks[0], lambda one: one.host_passed_s, evidence.windows, absent=_NOT_READ)
    if passed_s <= 0:
        raise NotJudgedError("the measured time is too short for the kernel's processor times")
    return passed_s


def _busy_s(evidence: Evidence, samples: Sequence[UsageSample]) -> float:
    """Seconds in which a process had a processor: packets of whomever, also over loopback, are nobody's."""
    busy_s = evidence.grown(samples, lambda one: one.host_busy_s, evidence.windows, absent=_NOT_READ)
    if any(one.host_interrupts_s is None for one in samples):
        return busy_s  # of a version that did not tell them apart
    return busy_s - evidence.grown(samples, lambda one: one.host_interrupts_s, evidence.windows, absent=_NOT_READ)


def _own_s(evidence: Evidence, place: int, ranks: _Ranks) -> float:
    """Seconds of the job, of the harness and of the testbed on a machine."""
    windows = evidence.windows
    own_s = [evidence.grown(rank, lambda one: one.cpu_s, windows, absent=_NOT_READ) for rank in ranks]
    if all(one.harness_cpu_s is not None for rank in ranks for one in rank):
        own_s += [evidence.grown(rank, lambda one: one.harness_cpu_s, windows, absent=_NOT_READ) for rank in ranks]
    elif place == 0 and evidence.server is not None:  # the testbed is on the first machine
        own_s.append(evidence.server.processor_s or 0.0)
    return sum(sorted(own_s))
