"""The sampler sees what the process and its children use, and loses nothing of those that end."""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import time
from pathlib import Path

import pytest

from bucketbench.records import UsageSample
from bucketbench.telemetry import UsageSampler, processes
from bucketbench.telemetry.processes import ProcessTree, TreeUsage

BURNT_S = 0.1


def burn(cpu_s: float = BURNT_S) -> None:
    end_s = time.process_time() + cpu_s
    while time.process_time() < end_s:
        pass


def hold(size_bytes: int, ready: object, done: object) -> None:
    block = bytearray(b"x") * size_bytes
    ready.set()  # type: ignore[attr-defined]  # multiprocessing's events have no public class
    done.wait()  # type: ignore[attr-defined]
    assert len(block) == size_bytes


def lines(path: Path) -> list[UsageSample]:
    return [UsageSample.from_json(json.loads(line)) for line in path.read_text().splitlines()]


def test_samples_at_entry_on_demand_and_exit_are_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "usage.jsonl"
    with UsageSampler(path, interval_s=1000) as sampler:
        asked = sampler.sample()
    written = lines(path)
    assert len(written) == 3
    assert written[1] == asked
    assert written[0].at_s <= asked.at_s <= written[2].at_s
    assert asked.rss_bytes > 0
    assert asked.processes >= 1


def test_the_thread_samples_in_between(tmp_path: Path) -> None:
    path = tmp_path / "usage.jsonl"
    with UsageSampler(path, interval_s=0.001):
        while len(lines(path)) < 4:  # pytest's limit ends a hang
            time.sleep(0.01)
    assert [sample.at_s for sample in lines(path)] == sorted(sample.at_s for sample in lines(path))


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a child that lived between two samples is not seen")
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_cpu_time_of_a_child_that_ended_between_two_samples_is_counted(tmp_path: Path, method: str) -> None:
    with UsageSampler(tmp_path / "usage.jsonl", interval_s=1000) as sampler:
        before = sampler.sample()
        child = multiprocessing.get_context(method).Process(target=burn)
        child.start()
        child.join()
        after = sampler.sample()
    assert child.exitcode == 0
    assert after.cpu_s - before.cpu_s >= BURNT_S - 0.05  # the kernel counts in ticks
    assert after.processes <= before.processes + 1  # a spawned child brings a resource tracker that stays


def test_own_work_is_counted_and_the_samplers_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = ProcessTree.read

    def read_dearly(tree: ProcessTree) -> TreeUsage:
        reading = read(tree)
        burn()
        return reading

    monkeypatch.setattr(ProcessTree, "read", read_dearly)
    with UsageSampler(tmp_path / "usage.jsonl", interval_s=1000) as sampler:
        before = sampler.sample()
        burn()
        worked = sampler.sample()
        for _ in range(5):
            idle = sampler.sample()
    assert worked.cpu_s - before.cpu_s >= BURNT_S - 0.05
    assert sampler.own_cpu_s >= 8 * BURNT_S
    # Five readings burnt CPU time, whoever had the machine meanwhile; hardly any of it is told.
    assert idle.cpu_s - worked.cpu_s < 5 * BURNT_S / 2


def test_memory_of_a_child_is_part_of_the_sum_while_it_lives() -> None:
    context = multiprocessing.get_context("spawn")
    ready, done = context.Event(), context.Event()
    size_bytes = 64 * 1024 * 1024
    tree = ProcessTree()
    before = tree.read()
    child = context.Process(target=hold, args=(size_bytes, ready, done))
    child.start()
    try:
        assert ready.wait(60)
        during = tree.read()
    finally:
        done.set()
        child.join()
    after = tree.read()
    assert during.memory_bytes - before.memory_bytes >= size_bytes
    assert during.memory_bytes - after.memory_bytes >= size_bytes
    assert during.processes > before.processes
    assert before.cpu_s <= during.cpu_s <= after.cpu_s


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="the kernel does not tell")
def test_memory_is_proportional_where_the_kernel_tells(tmp_path: Path) -> None:
    with UsageSampler(tmp_path / "usage.jsonl") as sampler:
        assert sampler.memory_kind == "pss"
    parent = processes._proportional_set_bytes(os.getppid())  # this process's is stood for by another figure in tests
    assert parent is not None
    assert 0 < parent < 1 << 40


def test_a_file_that_cannot_be_written_is_told_at_entry(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), UsageSampler(tmp_path / "absent" / "usage.jsonl"):
        pass


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_told() -> None:
    with pytest.raises(OSError, match="No space left"), UsageSampler(Path("/dev/full")):
        pass


@pytest.mark.parametrize("interval_s", [0, -1, float("nan")])
def test_an_interval_that_is_not_positive_is_refused(tmp_path: Path, interval_s: float) -> None:
    with pytest.raises(ValueError, match="interval_s"):
        UsageSampler(tmp_path / "usage.jsonl", interval_s=interval_s)
