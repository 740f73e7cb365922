"""Bytes and requests in results are those of the testbed's log, for every client of every scenario."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from result_schemas import validate_run
from stubbed_sweeps import StubbedHarness, logging_restored

UTILS = Path(__file__).parents[3] / "utils"


def check(
    directory: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str
) -> None:
    monkeypatch.setattr(sys, "path", [str(UTILS), *sys.path])
    monkeypatch.setattr(sys, "argv", ["measure_truth.py", str(directory), "--fast", *arguments])
    import measure_truth

    with logging_restored():
        status = measure_truth.main()
    said = capsys.readouterr()
    assert status == 0, said.out + said.err
    assert "jobs, of which 0 failed or disagree" in said.out
    for run in directory.glob("*/*/run_results.json"):
        validate_run(run.parent)


# Of the scenario's only real sweep on each commit, so that its process is one of its own.
@pytest.mark.timeout(300)
def test_of_a_client_that_saves_and_loads(
    measuring_apart: StubbedHarness,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    only = ["--only", "pytorch_checkpointing", "--targets", "local", "--clients", "torchbucket"]
    check(tmp_path / "truth", monkeypatch, capsys, *only)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_of_every_client_of_every_scenario(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    check(tmp_path / "truth", monkeypatch, capsys)
