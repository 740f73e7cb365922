"""Bytes and requests in results are those of the testbed's log, for every client of every scenario."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from result_schemas import validate_run

PROGRAM = Path(__file__).parents[3] / "utils" / "measure_truth.py"


def check(directory: Path, *arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(directory), "--fast", *arguments],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "jobs, of which 0 failed or disagree" in done.stdout
    for run in directory.glob("*/*/run_results.json"):
        validate_run(run.parent)


@pytest.mark.timeout(300)
def test_of_a_client_that_saves_and_loads(tmp_path: Path) -> None:
    check(tmp_path, "--only", "pytorch_checkpointing", "--targets", "local", "--clients", "torchbucket")


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_of_every_client_of_every_scenario(tmp_path: Path) -> None:
    check(tmp_path)
