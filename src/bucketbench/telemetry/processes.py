"""CPU time and memory of a process and its descendants, without losing those of descendants that ended."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import psutil

__all__ = ["ProcessTree", "TreeUsage"]

_SCANS = 3
"""Scans of one reading, at most, when processes end while it is taken. *Source*: our choice; one more is rare."""

# On Linux the kernel adds a child's CPU time, and that of its own waited-for children, to its parent when it is waited
# for. Elsewhere psutil cannot read this sum for other processes, and reports 0.
_ENDED_CHILDREN_ARE_COUNTED = sys.platform == "linux"


@dataclass(frozen=True, kw_only=True, slots=True)
class TreeUsage:
    """What a process and its descendants had used: CPU seconds since each began, and memory at this moment.

    ``storage_read_bytes`` is what they had the kernel read from storage devices, None where it does not tell.
    """

    cpu_s: float
    memory_bytes: int
    processes: int
    storage_read_bytes: int | None = None


class ProcessTree:
    """Reads the CPU time and memory of a process and of all its descendants, however deep.

    CPU time is user and system time, in the clock ticks of the kernel (a hundredth of a second on Linux). A descendant
    that ended is still counted: on Linux by the kernel, which adds its time to the parent that waited for it, and which
    is read together with the parent's own; elsewhere by the last value that was read of it. A descendant whose parent
    ended first leaves the tree; its last value stays counted. What neither covers is the time since the last reading of
    a descendant that ended without being waited for.

    What was read from storage devices is counted by Linux alone, which adds that of a child, like its CPU time, to the
    parent that waited for it.

    Memory is the proportional set size where Linux allows reading it, so that a page which a fork shares between n
    processes counts once in all and not n times; elsewhere, or where it is denied, the resident set size, in which it
    counts n times. Which one it is, ``memory_kind`` says.

    Not safe for use by several threads at once.
    """

    def __init__(self, pid: int | None = None) -> None:
        """Watch the process of this id, by default the calling one.

        Raises:
            psutil.NoSuchProcess: where no such process runs.
        """
        self._root = psutil.Process(pid)
        self._last_cpu_s: dict[psutil.Process, float] = {}
        self._departed_cpu_s = 0.0
        self._highest_cpu_s = 0.0
        self._highest_read_bytes = 0
        self._tells_reads = _storage_read_bytes(self._root.pid) is not None
        self.memory_kind = "rss" if _proportional_set_bytes(self._root.pid) is None else "pss"

    def read(self) -> TreeUsage:
        """Read the tree now; ``cpu_s`` never falls from one reading to the next."""
        for _ in range(_SCANS):
            cpu_s, memory_bytes, read_bytes, complete = self._scan()
            if complete:
                break
        self._settle(cpu_s)
        # A child that ended between the reading of its parent and its own is missing from this one reading only.
        total_s = sum(cpu_s.values()) + self._departed_cpu_s
        self._highest_cpu_s = max(self._highest_cpu_s, total_s)
        self._highest_read_bytes = max(self._highest_read_bytes, read_bytes)
        return TreeUsage(
            cpu_s=self._highest_cpu_s,
            memory_bytes=memory_bytes,
            processes=len(cpu_s),
            storage_read_bytes=self._highest_read_bytes if self._tells_reads else None,
        )

    def _scan(self) -> tuple[dict[psutil.Process, float], int, int, bool]:
        # Parents before their children, so that the end of a child may hide its time but never count it twice.
        processes = [self._root, *self._root.children(recursive=True)]
        cpu_s: dict[psutil.Process, float] = {}
        memory_bytes = read_bytes = 0
        complete = True
        for process in processes:
            try:
                with process.oneshot():
                    times = process.cpu_times()
                    cpu_s[process] = times.user + times.system
                    if _ENDED_CHILDREN_ARE_COUNTED:
                        cpu_s[process] += times.children_user + times.children_system
                    memory_bytes += self._memory_bytes(process)
                if self._tells_reads:
                    read_bytes += _storage_read_bytes(process.pid) or 0
            except psutil.NoSuchProcess:
                complete = False
            except psutil.AccessDenied:  # a descendant that became another user's: counted no further
                continue
        return cpu_s, memory_bytes, read_bytes, complete

    def _settle(self, cpu_s: dict[psutil.Process, float]) -> None:
        for process in self._last_cpu_s.keys() - cpu_s.keys():
            if not _ENDED_CHILDREN_ARE_COUNTED or process.is_running():
                self._departed_cpu_s += self._last_cpu_s[process]
        self._last_cpu_s = cpu_s

    def _memory_bytes(self, process: psutil.Process) -> int:
        if self.memory_kind == "pss":
            proportional_bytes = _proportional_set_bytes(process.pid)
            if proportional_bytes is not None:
                return proportional_bytes
        return process.memory_info().rss


def _proportional_set_bytes(pid: int) -> int | None:
    """The proportional set size of a process, None where the kernel does not tell."""
    try:
        # One file for the whole address space: far cheaper than adding up smaps, since Linux 4.14.
        with Path(f"/proc/{pid}/smaps_rollup").open("rb") as rollup:
            for line in rollup:
                if line.startswith(b"Pss:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        return None
    return None


def _storage_read_bytes(pid: int) -> int | None:
    """What a process and the children that it waited for had read from storage devices; None where nothing tells.

    *Source*: proc_pid_io(5), ``read_bytes``: what the process really caused to be fetched from the storage layer.
    """
    try:
        with Path(f"/proc/{pid}/io").open("rb") as counts:
            for line in counts:
                if line.startswith(b"read_bytes:"):
                    return int(line.split()[1])
    except OSError:
        return None
    return None
