"""Sweeps of checkpoints: what is saved is read back and compared, and what fails is told.

On each commit they are measured in this process; one in a process of its own is in test_truth_of_results.py.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from result_schemas import validate_run
from stubbed_sweeps import Finished, StubbedHarness

pytestmark = pytest.mark.timeout(300)

TENSORS = 4
SMALL = ["checkpoint=small", f"checkpoint.tensors={TENSORS}", "checkpoint.size=1MiB", "network=none", "repeat=0"]


@pytest.fixture
def user(tmp_path: Path) -> Path:
    """A folder of user clients."""
    group = tmp_path / "user" / "client"
    group.mkdir(parents=True)
    source = Path(__file__).with_name("sample_savers.py")
    shutil.copy(source, group.parent)
    for line in source.read_text().splitlines():
        if line.startswith("class "):
            name = line.split()[1].split("(")[0].rstrip(":")
            (group / f"{name}.yaml").write_text(f"name: {name}\n_target_: sample_savers.{name}\n")
    return group.parent


def swept(harness: StubbedHarness, user: Path, *overrides: str) -> tuple[Finished, dict[str, dict[str, Any]]]:
    """A sweep, and its jobs by client."""
    done = harness.run("pytorch_checkpointing", *SMALL, *overrides, "--config-dir", str(user))
    assert done.directory is not None, done.err
    validate_run(done.directory)
    return done, {job["client"]: job for job in done.jobs}


def values(job: dict[str, Any]) -> dict[str, float | None]:
    assert job["status"] == "ok", job["reason"]
    return {name: figure["value"] for name, figure in job["figures"].items()}


def test_clients_are_compared_at_saving_and_at_loading_and_one_that_loads_a_bit_wrong_fails(
    measuring_here: StubbedHarness, user: Path
) -> None:
    done, jobs = swept(measuring_here, user, "client=torchbucket,torchbucket-async,OneBit", "steps=2")
    assert done.status == 1
    assert "Traceback" not in done.err
    said = " ".join(done.out.split())
    assert "pytorch_checkpointing scenario: 3 jobs of 3 clients, 1 failed" in said
    assert "times the save throughput of" in said
    assert "times the load throughput of" in said
    assert "others:" not in said
    wrong = jobs.pop("OneBit")
    assert "3 arrived with wrong content; first: tensor.00002 of bucketbench-step-0.pt has other" in wrong["reason"]
    assert wrong["figures"]["save_mibs"]["value"] is None
    for job in jobs.values():
        found = values(job)
        assert (found["checkpoints"], found["state_mib"], found["errors"]) == (2, 1, 0)
        assert job["verification"]["checked"] == 2 * TENSORS
        assert all(found[name] is not None for name in ("save_mibs", "load_mibs", "save_memory_mib", "load_memory_mib"))
    foreground, background = values(jobs["torchbucket"]), values(jobs["torchbucket-async"])
    assert foreground["blocked_s"] is None
    assert 0 < background["blocked_s"] <= background["save_s"]  # type: ignore[operator]  # both are there
    assert foreground["requests_per_save"] == 1
    received_mib = foreground["server_bytes_in_mib"]
    assert received_mib is not None
    assert 2 <= received_mib < 2.1, "two checkpoints of a MiB, without those of the warm-up"
    assert not list(Path(".bucketbench").glob("checkpoints-*")), "local files are gone"


@pytest.mark.nightly
def test_uploads_without_parts_are_asked_for_and_refused_by_who_has_none(
    measuring_apart: StubbedHarness, user: Path
) -> None:
    whole = ["checkpoint.size=20MiB", "steps=1", "disable_multipart=true", "warmup=false"]
    done, jobs = swept(measuring_apart, user, "client=torchbucket,Kept", *whole)
    assert done.status == 1
    assert values(jobs["torchbucket"])["requests_per_save"] == 1
    assert "disable_multipart=true asks for a client with the option multipart" in jobs["Kept"]["reason"]


@pytest.mark.nightly
def test_cloud_storage_is_saved_to_by_its_own_clients(measuring_apart: StubbedHarness, user: Path) -> None:
    clients = "client=torchbucket,google-cloud-storage,raw"
    done, jobs = swept(measuring_apart, user, "target=local_gs", clients, "steps=1")
    assert done.status == 0, done.err
    assert {values(job)["checkpoints"] for job in jobs.values()} == {1}
