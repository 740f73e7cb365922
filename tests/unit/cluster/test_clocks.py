"""Records of several machines are read by one clock, that of rank 0's machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bucketbench.checkpointing.figures import FIGURES
from bucketbench.errors import ResultsError
from bucketbench.records import Operation, OperationKind, Phase, UsageSample
from bucketbench.results.raw import read_raw

MIB = 1 << 20


def leave(folder: Path, rank: int, *, at_s: float, took_s: float, ahead_s: float | None) -> None:
    """A save of one MiB and a load of it, which began at the same moment on every rank."""
    folder.mkdir(parents=True)
    operations = []
    for kind, begun_s in ((OperationKind.SAVE, at_s), (OperationKind.LOAD, at_s + 10)):
        operations.append(
            Operation(
                kind=kind, phase=Phase.MEASURE, epoch=0, worker=-1, started_s=begun_s, ended_s=begun_s + took_s,
                samples=1, content_bytes=MIB, rank=rank,
            )
        )  # fmt: skip
    usage = [
        UsageSample(at_s=at_s + after_s, cpu_s=after_s / 10, rss_bytes=64 * MIB, processes=1)
        for after_s in (-1.0, 0.0, 4.0, 10.0, 14.0)
    ]
    for name, records in (("operations.jsonl", operations), ("usage.jsonl", usage)):
        (folder / name).write_text("".join(f"{json.dumps(record.to_json())}\n" for record in records))
    if ahead_s is not None:
        (folder / "clock.json").write_text(json.dumps({"offset_s": ahead_s, "within_s": 0.001}))


def test_a_job_lasts_as_long_as_its_slowest_rank_whatever_the_machines_clocks_say(tmp_path: Path) -> None:
    leave(tmp_path / "ranks" / "0", 0, at_s=100.0, took_s=2.0, ahead_s=0.0)
    leave(tmp_path / "ranks" / "1", 1, at_s=90_100.0, took_s=4.0, ahead_s=-90_000.0)
    operations, usage = read_raw(tmp_path, ended=True)
    assert [(one.rank, one.started_s) for one in operations] == [(0, 100.0), (0, 110.0), (1, 100.0), (1, 110.0)]
    assert [sample.at_s for sample in usage if sample.rank == 1] == [99.0, 100.0, 104.0, 110.0, 114.0]
    figures = FIGURES.of_job(operations, usage, server=None)
    assert figures["save_s"].value == figures["load_s"].value == 4.0
    assert figures["save_mibs"].value == 0.5
    assert figures["cpu_s"].value == pytest.approx(2 * (0.4 + 0.4))


def test_a_machine_alone_has_no_other_clock_and_a_damaged_one_is_told(tmp_path: Path) -> None:
    leave(tmp_path / "alone", 0, at_s=100.0, took_s=2.0, ahead_s=None)
    operations, _ = read_raw(tmp_path / "alone", ended=True)
    assert operations[0].started_s == 100.0
    (tmp_path / "alone" / "clock.json").write_text("{}")
    with pytest.raises(ResultsError, match=r"clock\.json is damaged, it has no offset"):
        read_raw(tmp_path / "alone", ended=True)
