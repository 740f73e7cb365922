"""Sweeps of the listing scenario as a user starts them: on the testbed, on a bucket elsewhere, and with bad clients."""

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
from jsonschema import Draft202012Validator
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from bucketbench.results import schema
from buckettestbed.launch import launch_testbed

pytestmark = pytest.mark.timeout(300)

DATAFLUX = Path(__file__).parents[3] / ".venv-dataflux" / "bin" / "python"
NAMES = 300
SMALL = [f"names.count={NAMES}", "network=none", "passes=1", "repeat=0"]


@dataclass(frozen=True, kw_only=True)
class Place:
    """A directory in which sweeps are started, with a folder of user clients."""

    directory: Path

    def run(self, *overrides: str, **environment: str) -> subprocess.CompletedProcess[str]:
        command = [
            sys.executable,
            "-m",
            "bucketbench.cli",
            "run",
            "listing",
            "--config-dir",
            str(self.directory / "user"),
        ]
        return subprocess.run(
            [*command, *SMALL, *overrides],
            cwd=self.directory,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )

    def results(self) -> dict[str, Any]:
        """Those of the newest sweep."""
        (newest, *_) = sorted((self.directory / "multirun" / "listing").glob("*"), reverse=True)
        return json.loads((newest / "run_results.json").read_bytes())

    def jobs(self) -> dict[str, dict[str, Any]]:
        return {job["client"]: job for job in self.results()["jobs"]}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    place = Place(directory=tmp_path_factory.mktemp("listing"))
    group = place.directory / "user" / "client"
    group.mkdir(parents=True)
    source = Path(__file__).with_name("sample_listers.py")
    shutil.copy(source, place.directory / "user")
    for line in source.read_text().splitlines():
        if line.startswith("class "):
            name = line.split()[1].split("(")[0]
            (group / f"{name}.yaml").write_text(f"name: {name}\n_target_: sample_listers.{name}\n")
    return place


def test_two_clients_are_compared(place: Place) -> None:
    done = place.run("client=torchbucket,boto3", "passes=auto", "min_measured_s=0.05")
    assert done.returncode == 0, done.stderr
    assert "listing scenario: 2 jobs of 2 clients, 0 failed" in " ".join(done.stdout.split())
    assert "times the speed of" in " ".join(done.stdout.split())
    results = place.results()
    assert [(job["repeat"], job["client"]) for job in results["jobs"]] == [
        (0, client) for client in ("torchbucket", "boto3")
    ]
    for job in results["jobs"]:
        figures = {name: figure["value"] for name, figure in job["figures"].items()}
        assert figures["names"] == NAMES * figures["listings"]
        assert figures["wall_s"] >= 0.05
        assert figures["errors"] == 0
        assert figures["pages_per_listing"] == figures["requests_per_listing"] == 1
        assert 0 < figures["time_to_first_name_s"] <= figures["list_s"] * 1.5
        assert job["verification"]["checked"] == NAMES * figures["listings"]
        assert job["versions"][job["client"]]
    parts = {
        f"{name}.schema.json": DRAFT202012.create_resource(schema(name)) for name in ("job_results", "run_results")
    }
    registry: Registry[Any] = Registry().with_resources(parts.items())
    Draft202012Validator(schema("run_results"), registry=registry).validate(results)


WRONG = {
    "Missing": ("missing", "1 never arrived"),
    "Duplicated": ("duplicated", "1 arrived more than once"),
    "WrongSize": ("mismatched", "30 arrived with wrong content"),
}


def test_wrong_listings_fail_and_say_what_is_wrong(place: Place) -> None:
    done = place.run(f"client={','.join(WRONG)}", "warmup=false")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    jobs = place.jobs()
    for name, (count, words) in WRONG.items():
        job = jobs[name]
        assert job["status"] == "failed"
        assert words in job["reason"]
        assert job["verification"][count] >= 1
        assert job["figures"]["errors"]["value"] == job["verification"][count]


def test_cloud_storage_is_listed_by_its_own_clients(place: Place) -> None:
    done = place.run("target=local_gs", "client=google-cloud-storage-fields", "names.shape=nested")
    assert done.returncode == 0, done.stderr
    for job in place.jobs().values():
        assert job["status"] == "ok"
        assert job["parameters"]["names.shape"] == "nested"


@pytest.mark.nightly
@pytest.mark.skipif(not DATAFLUX.exists(), reason="utils/setup_peer_env.sh dataflux has not made its environment")
def test_a_client_with_an_interpreter_of_its_own(place: Place) -> None:
    done = place.run("target=local_gs", "client=dataflux", "names.shape=hot")
    assert done.returncode == 0, done.stderr
    job = place.jobs()["dataflux"]
    assert job["verification"]["checked"] == NAMES
    assert job["versions"]["google-cloud-storage"].startswith("2.")


def test_a_real_bucket_is_written_to_when_asked_and_only_then(place: Place) -> None:
    account = {"AWS_ACCESS_KEY_ID": "someone", "AWS_SECRET_ACCESS_KEY": "something", "AWS_REGION": "eu-west-1"}
    with launch_testbed(buckets=["there"]) as testbed:
        elsewhere = [
            "target=s3", "target.bucket=there", "target.path_style=true", f"target.endpoint={testbed.s3_endpoint}",
            "client=boto3",
        ]  # fmt: skip
        refused = place.run(*elsewhere, **account)
        assert refused.returncode == 2
        assert refused.stderr.count("\n") == 1
        assert "has no object, and the scenario lists 300 there: names.generate=true writes them" in refused.stderr
        assert testbed.counts()["requests"].get("put_object", 0) == 0
        written = place.run(*elsewhere, "names.generate=true", **account)
        assert written.returncode == 0, written.stderr
        assert testbed.counts()["requests"]["put_object"] == NAMES + 10, "and ten to warm up with"
    job = place.jobs()["boto3"]
    assert job["verification"]["checked"] == NAMES
    assert job["figures"]["pages_per_listing"]["value"] is None
    assert job["parameters"]["network"] is None
