"""A sweep of the scenario of Lightning's checkpoints as a user starts it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from finished_sweeps import NO_PAGE
from result_schemas import validate_run

pytestmark = pytest.mark.timeout(300)


def swept(directory: Path, *overrides: str) -> dict[str, dict[str, Any]]:
    """The jobs of a sweep with a small model, by their clients."""
    command = [sys.executable, "-m", "bucketbench.cli", "run", "lightning_checkpointing", "repeat=0", "network=none"]
    done = subprocess.run(
        [*command, "checkpoint=small", "checkpoint.size=1MiB", "steps=2", NO_PAGE, *overrides],
        cwd=directory, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (results,) = directory.glob("multirun/lightning_checkpointing/*/run_results.json")
    validate_run(results.parent)
    return {job["client"]: job for job in json.loads(results.read_bytes())["jobs"]}


def check(job: dict[str, Any], *, is_blocked_for_less: bool) -> None:
    assert job["status"] == "ok"
    assert job["verification"]["checked"] == 2 * 16  # tensors of both steps
    figures = {name: figure["value"] for name, figure in job["figures"].items()}
    assert figures["checkpoints"] == 2
    assert figures["requests_per_save"] >= 1
    assert figures["requests_per_load"] >= 1
    assert (figures["blocked_s"] is not None) == is_blocked_for_less


def test_a_trainer_saves_in_the_background(tmp_path: Path) -> None:
    check(swept(tmp_path, "client=torchbucket-async")["torchbucket-async"], is_blocked_for_less=True)


@pytest.mark.nightly
def test_lightnings_default_on_both_ports(tmp_path: Path) -> None:
    for target, library in (("local", "s3fs"), ("local_gs", "gcsfs")):
        directory = tmp_path / library
        directory.mkdir()
        names = [f"default-{library}", f"default-{library}-async"]
        jobs = swept(directory, f"target={target}", f"client={','.join(names)}")
        assert list(jobs) == names
        for name, job in jobs.items():
            check(job, is_blocked_for_less=name.endswith("-async"))
