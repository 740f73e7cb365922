"""What others have put into a bucket is measured as it lies there, and nothing is written."""

from __future__ import annotations

import gzip
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml
from botocore import UNSIGNED
from botocore.config import Config
from finished_sweeps import read_results
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage
from google.oauth2 import service_account
from stubbed_sweeps import StubbedHarness

from bucketbench.clients.mounting import missing_tools
from bucketbench.configuration.directory import find_conf_directory
from buckettestbed.auth.credentials import OWNER, READ_ONLY, VIEWER
from buckettestbed.launch import RunningTestbed, launch_testbed

SMALL = ["dataloader.batch_size=8", "warmup_samples=4", "epochs=1", "repeat=0", "dataloader.num_workers=0"]


@pytest.fixture(scope="module")
def testbed() -> Iterator[RunningTestbed]:
    with launch_testbed(buckets=["theirs"], log_requests=100_000) as running:
        yield running


@pytest.fixture(scope="module")
def guarded() -> Iterator[RunningTestbed]:
    """One that takes signed requests only, and lets nobody write with what the environment has."""
    with launch_testbed(buckets=["theirs"], log_requests=100_000, require_auth=True) as running:
        yield running


def content(number: int) -> bytes:
    return random.Random(number).randbytes(number * 37 % 5000)


def write_by_boto3(testbed: RunningTestbed, prefix: str, count: int) -> None:
    keys: dict[str, Any] = {"config": Config(s3={"addressing_style": "path"})}
    if testbed.credentials is None:
        keys["config"] = keys["config"].merge(Config(signature_version=UNSIGNED))
    else:
        key = testbed.credentials.access_keys[OWNER]
        keys |= {"aws_access_key_id": key.access_key_id, "aws_secret_access_key": key.secret_access_key}
    client = boto3.client("s3", endpoint_url=testbed.s3_endpoint, region_name="us-east-1", **keys)
    for folder in ("", "part 1/"):
        client.put_object(Bucket="theirs", Key=f"{prefix}{folder}", Body=b"")  # as a console makes a folder
    for number in range(count):
        client.put_object(Bucket="theirs", Key=f"{prefix}part {number % 3}/{number:04} +ü.bin", Body=content(number))


def write_by_google(testbed: RunningTestbed, prefix: str, count: int) -> None:
    credentials: Any = AnonymousCredentials()
    if testbed.credentials is not None:
        account = testbed.credentials.service_accounts[OWNER]
        credentials = service_account.Credentials.from_service_account_file(str(account))
    client = storage.Client(project="p", credentials=credentials, client_options={"api_endpoint": testbed.gcs_endpoint})
    for folder in ("", "part 1/"):
        client.bucket("theirs").blob(f"{prefix}{folder}").upload_from_string(b"")
    packed = client.bucket("theirs").blob(f"{prefix}packed.json")
    packed.content_encoding = "gzip"  # which some clients are sent decoded
    packed.upload_from_string(gzip.compress(content(100)), content_type="application/json")
    for number in range(1, count):
        client.bucket("theirs").blob(f"{prefix}{number:04}.bin").upload_from_string(content(number))


def theirs(testbed: RunningTestbed, scheme: str, prefix: str) -> list[str]:
    endpoint = testbed.s3_endpoint if scheme == "s3" else testbed.gcs_endpoint
    where = ["target.bucket=theirs", f"target.endpoint={endpoint}", "target.path_style=true"]
    if scheme == "s3":
        where.append("target.region=us-east-1")  # s3torchconnector finds none by itself
    anonymous = str(testbed.credentials is None).lower()
    return [f"target={scheme}", *where, f"target.anonymous={anonymous}", "data=existing", f"data.prefix={prefix}"]


def writes(testbed: RunningTestbed) -> list[str]:
    found = (one for one in testbed.requests() if one.bucket)  # a request for a token is for no bucket
    return [f"{one.method} {one.key}" for one in found if one.method not in ("GET", "HEAD")]


def run(directory: Path, testbed: RunningTestbed, *overrides: str) -> list[dict[str, Any]]:
    testbed.reset_counts()
    command = [sys.executable, "-m", "bucketbench.cli", "run", "dataset", *SMALL, *overrides]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=1500, check=False)
    assert done.returncode == 0, done.stderr
    assert writes(testbed) == []
    (run_directory,) = (directory / "multirun" / "dataset").iterdir()
    jobs: list[dict[str, Any]] = read_results(run_directory)["jobs"]
    return jobs


def clients_of(scheme: str) -> list[str]:
    """All that read objects in a bucket of the scheme and write nothing into it; mounting is for machines that can."""
    names = []
    for file in sorted((find_conf_directory("dataset") / "dataset" / "client").glob("*.yaml")):
        fields = yaml.safe_load(file.read_text())
        of_objects = fields.get("samples", "objects") == "objects"
        if of_objects and scheme in fields.get("schemes", [scheme]) and not _writes(fields):
            names.append(file.stem)
    absent = {"disk"} | ({"mount"} if missing_tools() else set())
    return [name for name in names if name not in absent]


def _writes(fields: dict[str, Any]) -> bool:
    return bool(fields.get("options", {}).get("compose"))


def measured(harness: StubbedHarness, testbed: RunningTestbed, *overrides: str) -> list[dict[str, Any]]:
    """The jobs of a sweep in this process."""
    testbed.reset_counts()
    done = harness.run("dataset", *SMALL, *overrides)
    assert done.status == 0, done.err
    assert writes(testbed) == []
    return done.jobs


def test_a_prefix_is_read_whole_and_nothing_is_written(testbed: RunningTestbed, measuring_here: StubbedHarness) -> None:
    write_by_boto3(testbed, "images/", 40)
    jobs = measured(measuring_here, testbed, *theirs(testbed, "s3", "images/"), "client=torchbucket-map,boto3")
    assert [job["verification"]["checked"] for job in jobs] == [40, 40]
    assert jobs[0]["details"]["data"].startswith("40 objects of 0 to 1,443 bytes, ")
    assert (jobs[0]["parameters"]["data.prefix"], jobs[0]["parameters"]["data.max_samples"]) == ("images/", None)


def test_some_of_a_prefix(testbed: RunningTestbed, measuring_here: StubbedHarness) -> None:
    write_by_google(testbed, "many/", 20)
    where = [*theirs(testbed, "gs", "many/"), "data.max_samples=12"]
    jobs = measured(measuring_here, testbed, *where, "client=torchbucket-map,torchbucket-iterable")
    # The first object stands for a folder: it is one of the twelve that are read, and no sample.
    assert [job["verification"]["checked"] for job in jobs] == [11, 11]
    assert jobs[0]["details"]["data"].endswith("the content of 12 is known")


@pytest.mark.nightly  # two of them on each commit
@pytest.mark.parametrize("scheme", ["s3", "gs"])
@pytest.mark.parametrize("place", ["testbed", "guarded"], ids=["anonymous", "signed"])
def test_every_client_reads_what_others_have_written(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str, place: str
) -> None:
    there: RunningTestbed = request.getfixturevalue(place)
    {"s3": write_by_boto3, "gs": write_by_google}[scheme](there, f"all-{scheme}/", 500)
    if there.credentials is not None:  # of somebody who may read, and not write
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(there.credentials.service_accounts[VIEWER]))
        key = there.credentials.access_keys[READ_ONLY]
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", key.access_key_id)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", key.secret_access_key)
    clients = clients_of(scheme)
    jobs = run(tmp_path, there, *theirs(there, scheme, f"all-{scheme}/"), f"client={','.join(clients)}")
    assert {job["client"]: job["verification"]["checked"] for job in jobs} == dict.fromkeys(clients, 500)
