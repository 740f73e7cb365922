"""Figures derived again from raw records, in place of the stored ones."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from report_results import job, write_run

from bucketbench.errors import ResultsError
from bucketbench.records import Operation, OperationKind, Phase, UsageSample
from bucketbench.report import load_run
from bucketbench.report.command import main
from bucketbench.report.derivation import derive_again
from bucketbench.scenarios.dataset.figures import FIGURES
from bucketbench.statistics import MIB, ServerCounts


def records() -> tuple[list[Operation], list[UsageSample]]:
    """One epoch of 2 s in which 8 MiB arrive."""
    place = {"phase": Phase.MEASURE, "epoch": 0, "worker": 0, "started_s": 1.0}
    operations = [
        Operation(kind=OperationKind.FETCH, ended_s=1.5, samples=8, content_bytes=8 * MIB, **place),  # type: ignore[arg-type]  # a mixed dict
        Operation(kind=OperationKind.EPOCH, ended_s=3.0, **place),  # type: ignore[arg-type]  # likewise
    ]
    usage = [UsageSample(at_s=at_s, cpu_s=at_s / 2, rss_bytes=MIB, processes=1) for at_s in (1.0, 3.0)]
    return operations, usage


def write_records(directory: Path) -> None:
    operations, usage = records()
    for name, found in (("operations.jsonl", operations), ("usage.jsonl", usage)):
        (directory / name).write_text("".join(f"{json.dumps(record.to_json())}\n" for record in found))
    (directory / "outcome.json").write_text(json.dumps({"server": {"requests": 8, "bytes_out": 16 * MIB}}))


def test_the_raw_records_replace_the_stored_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write_run(tmp_path / "run", [job("a", 0, 999.0), job("dead", 0, None)])
    write_records(run / "0")
    (alone, dead) = derive_again(load_run(run)).jobs
    assert alone.figures == FIGURES.of_job(*records(), server=ServerCounts(requests=8, bytes_out=16 * MIB))
    assert dead.figures["errors"].value == 3
    assert main([str(run), "--json", "--recompute"]) == 0
    rows = {row["client"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["a"]["throughput_mibs"] == 4
    assert rows["a"]["read_amplification"] == 2


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("operations.jsonl", None, "cannot be read"),
        ("operations.jsonl", '{"kind": "fet', "is damaged in line 1"),
        ("usage.jsonl", "{}\n", "is damaged in line 1"),
        ("outcome.json", "{}", "has no server counts"),
    ],
)
def test_missing_or_damaged_records_are_named(tmp_path: Path, name: str, content: str | None, message: str) -> None:
    run = write_run(tmp_path / "run", [job("a", 0, 999.0)])
    write_records(run / "0")
    if content is None:
        (run / "0" / name).unlink()
    else:
        (run / "0" / name).write_text(content)
    with pytest.raises(ResultsError, match=message) as refused:
        derive_again(load_run(run))
    assert str(run / "0" / name) in str(refused.value)


def test_a_run_file_alone_has_no_records(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [job("a", 0, 999.0)])
    alone = tmp_path / "elsewhere" / "run_results.json"
    alone.parent.mkdir()
    alone.write_text((run / "run_results.json").read_text())
    with pytest.raises(ResultsError, match="has no raw records"):
        derive_again(load_run(alone))


def test_a_job_whose_directory_is_gone_is_not_passed_over(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [job("a", 0, 999.0), job("b", 0, 999.0)])
    for number in ("0", "1"):
        write_records(run / number)
    shutil.rmtree(run / "1")
    with pytest.raises(ResultsError, match="of 1 of its 2 jobs"):
        derive_again(load_run(run))
