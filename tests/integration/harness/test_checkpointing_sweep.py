"""Sweeps of checkpoints as a user starts them: what is saved is read back and compared, and what fails is told."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from finished_sweeps import NO_PAGE
from result_schemas import validate_run

pytestmark = pytest.mark.timeout(300)

TENSORS = 4
SMALL = ["checkpoint=small", f"checkpoint.tensors={TENSORS}", "checkpoint.size=1MiB", "network=none", "repeat=0"]


@dataclass(frozen=True, kw_only=True)
class Place:
    """A directory in which sweeps are started, with a folder of user clients."""

    directory: Path

    def run(self, *overrides: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "bucketbench.cli", "run", "pytorch_checkpointing"]
        return subprocess.run(
            [*command, "--config-dir", str(self.directory / "user"), *SMALL, NO_PAGE, *overrides],
            cwd=self.directory,
            env=os.environ,
            capture_output=True,
            text=True,
            timeout=250,
            check=False,
        )

    def jobs(self) -> dict[str, dict[str, Any]]:
        """Those of the newest sweep, by client."""
        (newest, *_) = sorted((self.directory / "multirun" / "pytorch_checkpointing").glob("*"), reverse=True)
        validate_run(newest)
        return {job["client"]: job for job in json.loads((newest / "run_results.json").read_bytes())["jobs"]}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    place = Place(directory=tmp_path_factory.mktemp("checkpointing"))
    group = place.directory / "user" / "client"
    group.mkdir(parents=True)
    source = Path(__file__).with_name("sample_savers.py")
    shutil.copy(source, place.directory / "user")
    for line in source.read_text().splitlines():
        if line.startswith("class "):
            name = line.split()[1].split("(")[0].rstrip(":")
            (group / f"{name}.yaml").write_text(f"name: {name}\n_target_: sample_savers.{name}\n")
    return place


def values(job: dict[str, Any]) -> dict[str, float | None]:
    assert job["status"] == "ok", job["reason"]
    return {name: figure["value"] for name, figure in job["figures"].items()}


def test_clients_are_compared_at_saving_and_at_loading_and_one_that_loads_a_bit_wrong_fails(place: Place) -> None:
    done = place.run("client=torchbucket,torchbucket-async,OneBit", "steps=2")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    said = " ".join(done.stdout.split())
    assert "pytorch_checkpointing scenario: 3 jobs of 3 clients, 1 failed" in said
    assert "times the save throughput of" in said
    assert "times the load throughput of" in said
    assert "others:" not in said
    jobs = place.jobs()
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
    assert not list((place.directory / ".bucketbench").glob("checkpoints-*")), "local files are gone"


@pytest.mark.nightly
def test_uploads_without_parts_are_asked_for_and_refused_by_who_has_none(place: Place) -> None:
    whole = ["checkpoint.size=20MiB", "steps=1", "disable_multipart=true", "warmup=false"]
    done = place.run("client=torchbucket,Kept", *whole)
    assert done.returncode == 1
    jobs = place.jobs()
    assert values(jobs["torchbucket"])["requests_per_save"] == 1
    assert "disable_multipart=true asks for a client with the option multipart" in jobs["Kept"]["reason"]


@pytest.mark.nightly
def test_cloud_storage_is_saved_to_by_its_own_clients(place: Place) -> None:
    done = place.run("target=local_gs", "client=torchbucket,google-cloud-storage,raw", "steps=1")
    assert done.returncode == 0, done.stderr
    assert {values(job)["checkpoints"] for job in place.jobs().values()} == {1}
