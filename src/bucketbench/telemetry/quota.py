"""How often a quota of processor time, as containers and services have, stopped what runs under it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

__all__ = ["ProcessorQuota", "QuotaPeriods"]

_CGROUPS: Final = Path("/proc/self/cgroup")
_ROOT: Final = Path("/sys/fs/cgroup")


@dataclass(frozen=True, kw_only=True, slots=True)
class QuotaPeriods:
    """The periods, mostly of 0.1 s, in which processes wanted a processor, since the quota was set.

    Args:
        periods: all of them; 0 without a quota.
        throttled: those in which the quota was used up before their end.
    """

    periods: int
    throttled: int


class ProcessorQuota:
    """The quota that the calling process is under: of the levels above it that can be seen, the one with the least.

    *Source*: Linux, admin-guide/cgroup-v2.rst (``cpu.max``, ``cpu.stat``) and scheduler/sched-bwc.rst (version 1).
    """

    def __init__(self, *, root: Path = _ROOT, cgroups: Path = _CGROUPS) -> None:
        """Find it.

        Args:
            root: where the control groups are mounted.
            cgroups: the file that names those of the process.
        """
        levels = list(_levels(root, cgroups))
        quotas = [(quota, level) for level in levels if (quota := _processors(level)) is not None]
        self._is_told = bool(levels)
        self._stat = min(quotas)[1] / "cpu.stat" if quotas else None

    def read(self) -> QuotaPeriods | None:
        """Read the counters now; None where the system does not tell."""
        if self._stat is None:
            return QuotaPeriods(periods=0, throttled=0) if self._is_told else None
        try:
            counts = dict(line.split() for line in self._stat.read_text(encoding="ascii").splitlines())
            return QuotaPeriods(periods=int(counts["nr_periods"]), throttled=int(counts["nr_throttled"]))
        except (OSError, KeyError, ValueError):
            return None


def _levels(root: Path, cgroups: Path) -> Iterator[Path]:
    """The process's control groups that are there, of either version, and those above each."""
    try:
        lines = cgroups.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        own = PurePosixPath(path)
        for level in (own, *own.parents):
            # In a container the path may be the host's, of which only the end is mounted, as the root.
            found = root / controllers / str(level).lstrip("/")
            if found.is_dir():
                yield found


def _processors(level: Path) -> float | None:
    """How many processors' time a level may use; None without a quota."""
    try:
        if (level / "cpu.max").exists():
            quota, period = (level / "cpu.max").read_text(encoding="ascii").split()
        else:
            quota, period = (
                (level / f"cpu.cfs_{name}_us").read_text(encoding="ascii").strip() for name in ("quota", "period")
            )
        return None if quota in ("max", "-1") else int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):
        return None
