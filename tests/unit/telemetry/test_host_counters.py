"""What the host's own counters tell: its processors from a planted file, clocks and devices from the real ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bucketbench.records import UsageSample
from bucketbench.telemetry import OtherProcesses, UsageSampler
from bucketbench.telemetry.processes import ProcessTree
from bucketbench.telemetry.processors import ProcessorTime, read_processors

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has these files")


def planted(directory: Path, *lines: str) -> Path:
    path = directory / "stat"
    path.write_text("".join(f"{line}\n" for line in ("cpu  1 1 1 1 1 1 1 1 1 1", *lines, "intr 12345 0", "ctxt 1")))
    return path


@LINUX
def test_the_processors_that_may_be_used_are_added_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 2})
    ticks_per_s = os.sysconf("SC_CLK_TCK")
    stat = planted(
        tmp_path,
        "cpu0 100 10 20 500 30 5 5 30 0 0",  # user nice system idle iowait irq softirq steal, and guests
        "cpu1 9000 0 0 0 0 0 0 0 0 0",
        "cpu2 200 0 0 100 0 0 0 0 50 50",
    )
    found = read_processors(stat)
    assert found == ProcessorTime(
        busy_s=(140 + 200) / ticks_per_s,
        interrupts_s=(5 + 5) / ticks_per_s,
        steal_s=30 / ticks_per_s,
        passed_s=(700 + 300) / ticks_per_s,
    )


@pytest.mark.parametrize("lines", [(), ("cpu0 1 2 3",), ("cpu0 a b c d e f g h",)], ids=["none", "short", "no numbers"])
def test_what_is_not_told_is_none(tmp_path: Path, lines: tuple[str, ...]) -> None:
    assert read_processors(planted(tmp_path, *lines)) is None
    assert read_processors(tmp_path / "absent") is None


@LINUX
def test_a_sample_has_the_time_of_day_and_the_hosts_processors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bucketbench.telemetry.sampler.time.time", lambda: 1234.5)
    path, others = tmp_path / "usage.jsonl", OtherProcesses()
    with UsageSampler(path, interval_s=1000, others=others, harness=[os.getppid()]) as sampler:
        taken_s = sampler.own_cpu_s
    for line in (tmp_path / "usage.jsonl").read_text().splitlines():
        sample = UsageSample.from_json(json.loads(line))
        assert sample.wall_clock_s == 1234.5
        assert None not in (sample.host_busy_s, sample.host_steal_s, sample.host_passed_s, sample.host_interrupts_s)
        assert None not in (sample.others_cpu_s, sample.others_are_all)
        assert (sample.host_busy_s or 0) <= (sample.host_passed_s or 0)
    assert (sample.harness_cpu_s or 0) >= taken_s > 0, "what the first sample took is the harness's own"


@LINUX
def test_what_children_read_from_a_device_is_kept_when_they_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = ProcessTree()
    before = tree.read().storage_read_bytes
    if before is None:
        pytest.skip("this kernel does not count it")
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    after = tree.read().storage_read_bytes
    assert after is not None
    assert after >= before, "the kernel adds a child's count to the parent that waited for it"
    monkeypatch.setattr("bucketbench.telemetry.processes._storage_read_bytes", lambda pid: None)
    assert ProcessTree().read().storage_read_bytes is None
