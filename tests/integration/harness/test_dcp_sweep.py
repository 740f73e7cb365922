"""Two ranks save and load distributed checkpoints, and the report knows one job of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from result_schemas import validate_run
from stubbed_sweeps import StubbedHarness

from bucketbench.cli import main


# On each commit ranks of two machines do so in tests/integration/cluster, other clients in one process in
# tests/integration/clients, and more ranks in test_placed_checkpoints.py; tests/unit/sweep has the sweeps.
@pytest.mark.nightly
def test_ranks_save_and_load_together(measuring_apart: StubbedHarness) -> None:
    done = measuring_apart.run(
        "dcp_fsdp", "client=torchbucket", "checkpoint=tensors", "checkpoint.tensors=5", "checkpoint.size=3MiB",
        "repeat=0", "steps=1", "network=none", page=True,
    )  # fmt: skip
    assert done.status == 0, done.err
    assert done.directory is not None
    validate_run(done.directory)
    (job,) = done.jobs
    assert job["status"] == "ok"
    assert "load: MiB/s over time" in (done.directory / "report.html").read_text()
    lines = [
        json.loads(line)
        for rank in range(2)
        for line in (done.directory / "0" / "ranks" / str(rank) / "operations.jsonl").read_text().splitlines()
    ]
    loads = [line for line in lines if line["kind"] == "load" and line["phase"] == "measure"]
    assert [load["rank"] for load in loads] == [0, 1]
    assert sum(load["content_bytes"] for load in loads) == 3 << 20


FAILING = """
import os
from bucketbench.clients.dcp.torchbucket import Torchbucket
from torchbucket.dcp import BucketStorageWriter

class Writer(BucketStorageWriter):
    def write_data(self, plan, planner):
        written = super().write_data(plan, planner)
        if os.environ["RANK"] == "1":
            written.wait()
            raise OSError("rank one cannot write")
        return written

class OneCannotWrite(Torchbucket):
    def storage(self, target):
        storage = super().storage(target)
        storage.writer = lambda name: Writer(storage._uri + name, config=storage._config)
        return storage
"""


@pytest.mark.nightly  # On each commit test_loop.py and test_results.py show what a rank does by itself.
def test_nothing_is_left_of_what_ranks_saved_where_one_fails(tmp_path: Path) -> None:
    own, directory = tmp_path / "own", tmp_path / "run"
    (own / "client").mkdir(parents=True)
    (own / "failing_writer.py").write_text(FAILING)
    (own / "client" / "failing.yaml").write_text(
        "name: failing\n_target_: failing_writer.OneCannotWrite\nrole: contestant\nrequires: [torchbucket]\n"
        "schemes: [s3]\noptions: {}\n"
    )
    overrides = [
        "client=failing", "checkpoint=tensors", "checkpoint.tensors=8", "checkpoint.size=4MiB", "repeat=0", "steps=1",
        "warmup=false", "network=none", f"hydra.sweep.dir={directory}", f"cache_dir={tmp_path / 'cache'}",
    ]  # fmt: skip
    assert main(["run", "dcp_simulated", "--config-dir", str(own), *overrides]) == 1
    (job,) = json.loads((directory / "run_results.json").read_text())["jobs"]
    assert job["reason"].startswith("ranks 0 and 1: CheckpointException")
    assert "rank one cannot write" in job["reason"]
    assert "objects_left" not in job["details"]
