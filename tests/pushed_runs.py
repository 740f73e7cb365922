"""Runs to push: of every scenario, made by the whole harness with a stub for what is measured."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from stubbed_sweeps import StubbedHarness, ended, leave_outcome

from bucketbench.job.description import OPERATIONS_FILE, USAGE_FILE, rank_directory
from bucketbench.records import Operation, OperationKind, Phase, UsageSample

__all__ = ["SCENARIOS", "canonical", "run_of", "written_run"]

_MIB = 1 << 20

SCENARIOS: Mapping[str, tuple[str, ...]] = {
    "dataset": ("client=boto3,raw",),
    "listing": ("client=boto3,obstore", "names.count=100"),
    "pytorch_checkpointing": ("client=boto3,raw", "checkpoint=small"),
    "lightning_checkpointing": ("client=torchbucket,disk", "checkpoint=small"),
    "dcp_ddp": ("client=torchbucket,fsspec-s3fs", "checkpoint=small"),
    "dcp_fsdp": ("client=torchbucket,fsspec-s3fs", "checkpoint=small"),
    "dcp_simulated": ("client=torchbucket,fsspec-s3fs", "checkpoint=small"),
}
"""What is swept in each scenario. The second client's job fails."""


def run_of(scenario: str, directory: Path, *overrides: str) -> Path:
    """Sweep a scenario in a directory: two clients with a job each, of which the first one succeeds."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        directory.mkdir(parents=True, exist_ok=True)
        monkeypatch.chdir(directory)
        harness = StubbedHarness(monkeypatch, serves=False)
        first, second = SCENARIOS[scenario][0].removeprefix("client=").split(",")
        ranks = 2 if scenario.startswith("dcp_") else 1
        if scenario not in ("dataset", "listing"):
            harness.worker.behaviours[first] = _checkpoints(ranks)
        harness.worker.behaviours[second] = ended(-9)
        done = harness.run(scenario, "repeat=0", f"ranks={ranks}", *SCENARIOS[scenario], *overrides)
        assert done.status == 1, done.err
        assert done.directory is not None, done.err
        assert [job["status"] for job in done.jobs] == ["ok", "failed"], done.jobs
        return done.directory


def _checkpoints(ranks: int) -> Callable[[Path], None]:
    def behave(directory: Path) -> None:
        for rank in range(ranks):
            folder = rank_directory(directory, rank=rank, world_size=ranks)
            folder.mkdir(parents=True, exist_ok=True)
            measured = {"phase": Phase.MEASURE, "epoch": 0, "worker": -1, "rank": rank, "samples": 1}
            operations = [
                Operation(kind=OperationKind.SAVE, started_s=1.0, ended_s=1.5, content_bytes=_MIB, **measured),
                Operation(kind=OperationKind.LOAD, started_s=2.0, ended_s=2.3, content_bytes=_MIB, **measured),
            ]
            usage = [
                UsageSample(at_s=at_s, cpu_s=at_s, rss_bytes=64 * _MIB, processes=1) for at_s in (0.9, 1.6, 1.9, 2.4)
            ]
            for name, records in ((OPERATIONS_FILE, operations), (USAGE_FILE, usage)):
                (folder / name).write_text("".join(f"{json.dumps(record.to_json())}\n" for record in records))
            leave_outcome(folder)

    return behave


def written_run(source: Path, directory: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """A copy of a run whose results were changed; those of its jobs alone as well."""
    shutil.copytree(source, directory)
    file = directory / "run_results.json"
    results = json.loads(file.read_bytes())
    change(results)
    file.write_text(json.dumps(results))
    return directory


def canonical(value: Any) -> str:
    """A JSON value as text, by which NaN equals itself and 1 differs from true."""
    return json.dumps(value, sort_keys=True)
