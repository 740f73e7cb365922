"""The rule of the clocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bucketbench.records import State, UsageSample
from bucketbench.validity.evidence import NOTHING_MEASURED, Evidence, NotJudgedError

__all__ = ["CLOCK_JUMP_S", "clock_jump"]

CLOCK_JUMP_S: Final = 0.1
"""By how much the time of day may move against the monotonic clock, in seconds, from the first measured moment to the
last. *Source*: a clock that is corrected gradually moves both alike, and ntpd sets one that is off by 128 ms or more
(ntpd(8)); a machine that sleeps stops the monotonic clock alone (clock_gettime(2))."""


def clock_jump(evidence: Evidence) -> tuple[State, str] | None:
    """Invalid where the machine slept, was stopped, or had its clock set while it was measured."""
    windows = evidence.windows
    if not windows:
        raise NotJudgedError(NOTHING_MEASURED)
    started_s, ended_s = min(one.started_s for one in windows), max(one.ended_s for one in windows)
    moved_s = [_moved_s(machine, started_s, ended_s) for machine in evidence.of_machines()]
    known_s = [one for one in moved_s if one is not None]
    most_s = max(known_s, default=0.0)
    if most_s <= CLOCK_JUMP_S and (not known_s or len(known_s) < len(moved_s)):
        raise NotJudgedError("the time of day was not recorded beside the monotonic clock")
    if most_s <= CLOCK_JUMP_S:
        return None
    return State.INVALID, (
        f"the time of day moved by {most_s:.2f} s against the monotonic clock while it was measured (limit "
        f"{CLOCK_JUMP_S:g} s): the machine slept or was stopped, or its clock was set"
    )


def _moved_s(machine: Sequence[Sequence[UsageSample]], started_s: float, ended_s: float) -> float | None:
    """The most that any rank's clocks moved against each other; None where nothing tells."""
    most_s: float | None = None
    for samples in machine:
        # From the last sample before to the first one after it.
        before = [one for one in samples if one.at_s <= started_s][-1:]
        after = [one for one in samples if one.at_s >= ended_s][:1]
        within = [one for one in samples if started_s < one.at_s < ended_s]
        ahead_s = [one.wall_clock_s - one.at_s for one in (*before, *within, *after) if one.wall_clock_s is not None]
        if len(ahead_s) > 1:
            most_s = max(most_s or 0.0, max(ahead_s) - min(ahead_s))
    return most_s
