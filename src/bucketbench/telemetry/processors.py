"""What the processors of the host did, for whomever: busy, taken by the hypervisor, and passed."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["ProcessorTime", "read_processors"]

_STAT: Final = Path("/proc/stat")
_IDLE: Final = (3, 4)  # idle, and waiting for a device
_INTERRUPTS: Final = (5, 6)
_STEAL: Final = 7
_FIELDS: Final = 8  # those of guests, which follow, are part of user and nice already


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessorTime:
    """Seconds since the host started, of the processors that this process may use, all together.

    Args:
        busy_s: in which they worked, whoever for.
        interrupts_s: of these, in which they answered devices and moved packets, those over loopback too; no process is
            told to have used them.
        steal_s: in which they had work and the hypervisor let another guest run.
        passed_s: all of them, idle ones included.
    """

    busy_s: float
    interrupts_s: float
    steal_s: float
    passed_s: float


def read_processors(stat: Path = _STAT) -> ProcessorTime | None:
    """Read the counters now; None where the system does not tell.

    *Source*: proc_stat(5): user, nice, system, idle, iowait, irq, softirq, steal, in clock ticks.

    Args:
        stat: the file to read.
    """
    try:
        own = os.sched_getaffinity(0)
        ticks_per_s = os.sysconf("SC_CLK_TCK")
        of_processors = [
            [int(ticks) for ticks in counts[:_FIELDS]]
            for name, *counts in (line.split() for line in stat.read_text(encoding="ascii").splitlines() if line)
            if name.startswith("cpu") and name[3:].isdecimal() and int(name[3:]) in own
        ]
    except (OSError, AttributeError, ValueError):
        return None
    if not of_processors or any(len(counts) < _FIELDS for counts in of_processors):
        return None
    passed = sum(map(sum, of_processors))
    steal = sum(counts[_STEAL] for counts in of_processors)
    idle, interrupts = (
        sum(counts[one] for counts in of_processors for one in places) for places in (_IDLE, _INTERRUPTS)
    )
    return ProcessorTime(
        busy_s=(passed - idle - steal) / ticks_per_s,
        interrupts_s=interrupts / ticks_per_s,
        steal_s=steal / ticks_per_s,
        passed_s=passed / ticks_per_s,
    )
