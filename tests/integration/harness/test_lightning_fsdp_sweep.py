"""Two ranks of a trainer save and load together, by each strategy."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from result_schemas import validate_run

from bucketbench.cli import main

# Cheaper ones are in tests/integration/clients/test_strategy_clients.py.
pytestmark = [pytest.mark.nightly, pytest.mark.timeout(300)]


def check(tmp_path: Path, *clients: str, target: str = "local") -> None:
    directory = tmp_path / "run"
    overrides = [
        f"client={','.join(clients)}", f"target={target}", "checkpoint=tensors", "checkpoint.tensors=5",
        "checkpoint.size=3MiB", "repeat=0", "steps=2", "network=none", f"hydra.sweep.dir={directory}",
        f"cache_dir={tmp_path / 'cache'}",
    ]  # fmt: skip
    assert main(["run", "lightning_fsdp", *overrides]) == 0
    validate_run(directory)
    jobs = json.loads((directory / "run_results.json").read_text())["jobs"]
    assert [job["client"] for job in jobs] == list(clients)
    for number, job in enumerate(jobs):
        assert job["status"] == "ok"
        assert job["verification"]["checked"] == 2 * 2 * 5  # of both ranks, in both steps
        assert (job["figures"]["blocked_s"]["value"] is not None) == (job["client"] == "torchbucket-async")
        lines = [
            json.loads(line)
            for rank in range(2)
            for line in (directory / str(number) / "ranks" / str(rank) / "operations.jsonl").read_text().splitlines()
        ]
        saves = [line for line in lines if line["kind"] == "save" and line["phase"] == "measure"]
        assert [save["rank"] for save in saves] == [0, 0, 1, 1]
        assert sum(save["content_bytes"] for save in saves) == 2 * (3 << 20)


def test_every_strategy(tmp_path: Path) -> None:
    check(tmp_path, "torchbucket", "torchbucket-async", "fsspec-s3fs", "disk")


def test_a_load_finds_what_was_saved(tmp_path: Path) -> None:
    clients = ["torchbucket", "torchbucket-async", "fsspec-s3fs", "disk", "boot-disk"]
    directory = tmp_path / "run"
    overrides = [
        f"client={','.join(clients)}", "action=save,load", "checkpoint=tensors", "checkpoint.tensors=5",
        "checkpoint.size=3MiB", "repeat=0", "steps=2", "network=none", f"hydra.sweep.dir={directory}",
        f"path={tmp_path / 'disk'}",
    ]  # fmt: skip
    assert main(["run", "lightning_fsdp", *overrides]) == 0
    jobs = json.loads((directory / "run_results.json").read_text())["jobs"]
    assert len(jobs) == 2 * len(clients)
    for job in jobs:
        assert job["status"] == "ok"
        assert job["verification"]["checked"] == 2 * 2 * 5
        saves = job["parameters"]["action"] == "save"
        assert (job["figures"]["save_mibs"]["value"] is not None, job["figures"]["load_mibs"]["value"] is None) == (
            saves,
            saves,
        )
        assert job["details"].get("loaded") == (None if saves else "found")


def test_every_strategy_on_cloud_storage(tmp_path: Path) -> None:
    check(tmp_path, "torchbucket", "fsspec-gcsfs", target="local_gs")
