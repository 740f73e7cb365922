"""What other processes used, read from planted files of /proc: not the job's, the harness's or the kernel's."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from bucketbench.telemetry.others import OtherProcesses, OthersUsage, cpu_s_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has these files")

TICKS_PER_S = os.sysconf("SC_CLK_TCK") if sys.platform == "linux" else 100
MARK = "BUCKETBENCH_JOB=here"
SWEEP, TESTBED, OTHER_JOB = 20, 21, 22
OWN = os.getpid()
INIT, KERNEL = 1, 2


class Machine:
    """A planted /proc: what runs on it is changed from reading to reading."""

    def __init__(self, proc: Path, *, has_kernel: bool = True) -> None:
        self._proc = proc
        self.run(INIT, "systemd", parent=0)
        if has_kernel:
            self.run(KERNEL, "kthreadd", parent=0, flags=0x00200000)
            self.run(3, "kswapd0", parent=KERNEL, flags=0x00200000)
        self.run(SWEEP, "python", parent=INIT)
        self.run(TESTBED, "python", parent=SWEEP)
        self.run(OWN, "python", parent=SWEEP)
        self.reader = OtherProcesses(mark=MARK, harness=(SWEEP, TESTBED), proc=proc)
        assert self.used() == {}

    def run(
        self, pid: int, command: str, *, parent: int, used_s: float = 0.0, waited_s: float = 0.0, flags: int = 0,
        started: int = 0, environment: str = "HOME=/root",
    ) -> None:  # fmt: skip
        ticks, waited = round(used_s * TICKS_PER_S), round(waited_s * TICKS_PER_S)
        folder = self._proc / str(pid)
        folder.mkdir(exist_ok=True)
        (folder / "stat").write_text(
            f"{pid} ({command}) S {parent} 1 1 0 -1 {flags} 0 0 0 0 {ticks - ticks // 2} {ticks // 2} "
            f"{waited - waited // 2} {waited // 2} 20 0 1 0 {started} 1 1\n"
        )
        (folder / "environ").write_text(f"{environment}\0PATH=/bin\0")

    def end(self, pid: int) -> None:
        for name in ("stat", "environ"):
            (self._proc / str(pid) / name).unlink()

    def usage(self) -> OthersUsage:
        found = self.reader.read()
        assert found is not None
        return found

    def used(self) -> Mapping[str, float]:
        return self.usage().cpu_s


def test_the_job_the_harness_and_the_kernel_are_no_others(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.run(OWN, "python", parent=SWEEP, used_s=1)
    machine.run(30, "pt_data_worker", parent=OWN, used_s=2)
    machine.run(31, "ffmpeg", parent=30, used_s=3)
    machine.run(SWEEP, "python", parent=INIT, used_s=4, waited_s=5)
    machine.run(TESTBED, "python", parent=SWEEP, used_s=6)
    machine.run(3, "kswapd0", parent=KERNEL, used_s=7, flags=0x00200000)
    machine.run(40, "rclone", parent=INIT, used_s=8, environment=MARK)
    assert machine.used() == {}
    machine.end(30)
    machine.run(31, "ffmpeg", parent=INIT, used_s=9)
    assert machine.used() == {}, "a worker whose parent is gone stays the job's"
    assert cpu_s_of((SWEEP, TESTBED, 99), tmp_path) == 10


def test_all_others_are_named_by_their_commands(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.run(50, "make (all)\x1b", parent=INIT)
    machine.run(51, "firefox", parent=INIT, used_s=1)
    machine.run(OTHER_JOB, "python", parent=SWEEP, used_s=2, environment="BUCKETBENCH_JOB=elsewhere")
    machine.run(OTHER_JOB + 1, "pt_data_worker", parent=OTHER_JOB, used_s=3)
    assert machine.used() == {"firefox": 1, "python": 2, "pt_data_worker": 3}, "another job of the sweep is a load"
    machine.run(51, "firefox", parent=INIT, used_s=1.5)
    machine.run(50, "make (all)\x1b", parent=INIT, used_s=0.5)
    assert machine.used() == {"firefox": 1.5, "python": 2, "pt_data_worker": 3, "make (all)?": 0.5}
    assert machine.usage().are_all


def test_what_ended_is_under_who_waited_for_it_and_counts_once(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.run(60, "make", parent=INIT, waited_s=100)
    machine.run(61, "sh", parent=60, used_s=1)
    machine.run(62, "cc1", parent=61, used_s=40)
    assert machine.used() == {"make": 100, "sh": 1, "cc1": 40}, "all of it began after the first reading"
    machine.end(62)
    machine.end(61)
    machine.run(60, "make", parent=INIT, waited_s=100 + 1 + 40 + 2)
    assert machine.used() == {"make": 102, "sh": 1, "cc1": 40}
    machine.run(62, "cc1", parent=60, used_s=3, started=9)
    assert machine.used()["cc1"] == 43, "an id that is used again is another process"


def test_inside_a_container_not_all_are_seen(tmp_path: Path) -> None:
    assert not Machine(tmp_path, has_kernel=False).usage().are_all
    assert OtherProcesses(proc=tmp_path / "absent").read() is None
