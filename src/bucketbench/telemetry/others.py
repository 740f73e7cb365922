"""What processes that are no part of the measurement used, by the names of their commands."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["OtherProcesses", "OthersUsage", "cpu_s_of"]

_PROC: Final = Path("/proc")
_KERNEL_THREAD: Final = 0x00200000  # PF_KTHREAD of the flags
# Places after the command: proc_pid_stat(5) numbers them from 3.
_PARENT, _FLAGS, _USER, _SYSTEM, _WAITED_USER, _WAITED_SYSTEM, _STARTED = 1, 6, 11, 12, 13, 14, 19


@dataclass(frozen=True, kw_only=True, slots=True)
class OthersUsage:
    """What others had used.

    Args:
        cpu_s: seconds of processors since the first reading, by the name of the command, without arguments. What a
            process started that ended meanwhile is under the process that waited for it.
        are_all: whether every process of the machine can be seen: not so inside a container, nor where the processes of
            other users are hidden.
    """

    cpu_s: Mapping[str, float]
    are_all: bool


@dataclass(frozen=True, slots=True)
class _Process:
    command: str
    parent: int
    started: int
    is_kernel: bool
    used: int  # ticks of its own
    waited: int  # ticks of children that ended and that it waited for, and of theirs


class OtherProcesses:
    """Reads what the processes of this machine use that belong neither to the job nor to the harness.

    The job's are the calling process, those that have its mark in their environment, and all their descendants; one
    that was seen once stays the job's when its parent is gone. Threads of the kernel are nobody's: they work for
    whomever asked, and mostly for the job. Not safe for use by several threads at once.

    *Source*: proc_pid_stat(5), proc_pid_environ(5).
    """

    def __init__(self, *, mark: str | None = None, harness: Collection[int] = (), proc: Path = _PROC) -> None:
        """Begin to count.

        Args:
            mark: ``NAME=VALUE`` of an environment variable that all of the job's processes have; None where it has
                none.
            harness: ids of processes of the harness: what they start themselves counts as another's, for example
                another job.
            proc: where the kernel tells.
        """
        self._proc = proc
        self._mark = None if mark is None else mark.encode()
        self._harness = frozenset(harness)
        self._ticks_per_s = os.sysconf("SC_CLK_TCK")
        self._own: set[tuple[int, int]] = set()  # by id and start: ids are used again
        self._judged: set[tuple[int, int]] = set()
        self._before: dict[int, _Process] | None = None
        self._ticks: Counter[str] = Counter()

    def read(self) -> OthersUsage | None:
        """What they have used by now; None where the system does not tell."""
        now = {pid: found for pid in self._pids() if (found := _read(self._proc, pid)) is not None}
        if not now:
            return None
        own = self._own_among(now)
        if self._before is not None:
            self._count(self._before, now, own)
        self._before = now
        return OthersUsage(
            cpu_s={command: ticks / self._ticks_per_s for command, ticks in self._ticks.items()},
            are_all=any(process.is_kernel for process in now.values()),
        )

    def _pids(self) -> list[int]:
        try:
            return [int(entry.name) for entry in os.scandir(self._proc) if entry.name.isdecimal()]
        except OSError:
            return []

    def _own_among(self, now: Mapping[int, _Process]) -> set[int]:
        own = {os.getpid()}
        for pid, process in now.items():
            known = (pid, process.started)
            if known not in self._judged and not process.is_kernel:
                self._judged.add(known)
                if self._is_marked(pid):
                    self._own.add(known)
            if known in self._own:
                own.add(pid)
        for pid in now:
            line = [pid]
            while line[-1] not in own and line[-1] in now and now[line[-1]].parent not in line:
                line.append(now[line[-1]].parent)
            if line[-1] in own:
                own.update(line)
        self._own.update((pid, now[pid].started) for pid in own & now.keys())
        return own | self._harness

    def _is_marked(self, pid: int) -> bool:
        if self._mark is None:
            return False
        try:
            return self._mark in (self._proc / str(pid) / "environ").read_bytes().split(b"\0")
        except OSError:
            return False  # another user's, or gone

    def _count(self, before: Mapping[int, _Process], now: Mapping[int, _Process], own: Collection[int]) -> None:
        # Who waited for a process has its whole time, of which some was used before.
        known_of_ended: Counter[int] = Counter()
        for pid, ended in before.items():
            if not _is_same(ended, now.get(pid)):
                parent = ended.parent
                while parent in before and not _is_same(before[parent], now.get(parent)):
                    parent = before[parent].parent
                known_of_ended[parent] += ended.used + ended.waited
        for pid, process in now.items():
            if pid in own or process.is_kernel:
                continue
            known = before.get(pid)
            used, waited = (known.used, known.waited) if known and _is_same(known, process) else (0, 0)
            grown = process.used - used + max(process.waited - waited - known_of_ended[pid], 0)
            if grown > 0:
                self._ticks[process.command] += grown


def cpu_s_of(pids: Collection[int], proc: Path = _PROC) -> float:
    """Seconds of processors that processes have used, without their children; of one that is gone none.

    Args:
        pids: their ids.
        proc: where the kernel tells.
    """
    found = (_read(proc, pid) for pid in pids)
    return sum(process.used for process in found if process is not None) / os.sysconf("SC_CLK_TCK")


def _is_same(one: _Process, other: _Process | None) -> bool:
    return other is not None and one.started == other.started


def _read(proc: Path, pid: int) -> _Process | None:
    try:
        # Not by Path, which takes several times as long; there may be a thousand processes.
        with open(f"{proc}/{pid}/stat", "rb", buffering=0) as file:  # noqa: PTH123
            head, _, tail = file.read().rpartition(b")")
        fields = tail.split()
        command = head.partition(b"(")[2].decode(errors="replace")
        return _Process(
            command="".join(letter if letter.isprintable() else "?" for letter in command),
            parent=int(fields[_PARENT]),
            started=int(fields[_STARTED]),
            is_kernel=bool(int(fields[_FLAGS]) & _KERNEL_THREAD),
            used=int(fields[_USER]) + int(fields[_SYSTEM]),
            waited=int(fields[_WAITED_USER]) + int(fields[_WAITED_SYSTEM]),
        )
    except (OSError, ValueError, IndexError):
        return None
