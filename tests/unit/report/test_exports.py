"""Every job as a row of CSV or Parquet, and back."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import pytest
from report_results import PARAMETERS, job, small_run, write_run

from bucketbench.cost.pricing import read_pricing
from bucketbench.report import load_run
from bucketbench.report.command import main
from bucketbench.report.costs import priced
from bucketbench.report.exports import job_rows
from bucketbench.report.runs import by_scenario


@pytest.fixture
def run(tmp_path: Path) -> Path:
    jobs = [*small_run(), job("dead", 0, None)]
    jobs[0] = {
        **jobs[0],
        "parameters": {**PARAMETERS, "dataloader.num_workers": "auto", "faults.rules": [], "tls": True},
    }
    return write_run(tmp_path / "run", jobs)


def test_csv_gives_back_every_value(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "jobs.csv"
    assert main([str(run), "--csv", str(file)]) == 0
    capsys.readouterr()
    with file.open(encoding="utf-8", newline="") as opened:
        read = list(csv.DictReader(opened))
    expected = job_rows(by_scenario(priced(load_run(run), read_pricing())))
    assert len(read) == len(expected) == 19
    for found, row in zip(read, expected, strict=True):
        assert list(found) == list(row)
        if row["throughput_mibs"] is None:
            assert (found["throughput_mibs"], found["throughput_mibs_reason"]) == ("", "left out by the test")
        else:
            assert float(found["throughput_mibs"]) == row["throughput_mibs"]
    assert read[0]["parameters.faults.rules"] == "[]"
    assert read[0]["parameters.tls"] == "true"
    assert read[-1]["reason"] == "the measured process was killed by SIGKILL"
    assert (read[0]["experiment"] == read[1]["experiment"], read[1]["experiment"] == read[2]["experiment"]) == (
        False,
        True,
    )


def test_parquet_gives_back_every_value_with_its_type(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    file = tmp_path / "jobs.parquet"
    assert main([str(run), "--parquet", str(file)]) == 0
    capsys.readouterr()
    read = parquet.read_table(file).to_pylist()
    mixed = "parameters.dataloader.num_workers"
    expected = job_rows(by_scenario(priced(load_run(run), read_pricing())))
    assert [row | {mixed: str(row[mixed])} for row in expected] == read
    assert read[0]["parameters.tls"] is True
    assert isinstance(read[0]["throughput_mibs"], float)
    assert read[-1]["throughput_mibs"] is None


def test_a_reason_stands_beside_its_figure(run: Path) -> None:
    names = list(job_rows(by_scenario(load_run(run)))[0])
    assert names[names.index("throughput_mibs") + 1] == "throughput_mibs_reason"


def test_without_pyarrow_the_extra_is_named(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert main([str(run), "--parquet", str(tmp_path / "jobs.parquet")]) == 2
    assert "pip install 'torchbucket[parquet]'" in capsys.readouterr().err
    assert not (tmp_path / "jobs.parquet").exists()
