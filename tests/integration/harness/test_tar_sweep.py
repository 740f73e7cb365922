"""Real sweeps over the samples in tar shards: made here, and somebody else's."""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml
from botocore import UNSIGNED
from botocore.config import Config
from finished_sweeps import read_results

from bucketbench.configuration.directory import find_conf_directory
from buckettestbed.launch import launch_testbed

SMALL = [
    "workload=tar_shards", "data.num_samples=40", "data.samples_per_shard=8", "data.sample_size=4KiB",
    "dataloader.batch_size=8", "dataloader.num_workers=2", "warmup_samples=4", "epochs=1", "repeat=0", "network=none",
]  # fmt: skip


def clients(scheme: str) -> list[str]:
    found = []
    for path in sorted((find_conf_directory("dataset") / "dataset" / "client").glob("*.yaml")):
        fields = yaml.safe_load(path.read_text())
        program = fields["options"].get("program")
        there = program is None or shutil.which(program) is not None
        if fields.get("samples") == "members" and scheme in fields["schemes"] and there:
            found.append(path.stem)
    return found


def run(directory: Path, *overrides: str) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "bucketbench.cli", "run", "dataset", *overrides]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    (run_directory,) = (directory / "multirun" / "dataset").iterdir()
    jobs: list[dict[str, Any]] = read_results(run_directory)["jobs"]
    return jobs


@pytest.mark.nightly  # tests/integration/clients has each client on each commit
@pytest.mark.parametrize("scheme", ["s3", "gs"])
def test_every_client_delivers_every_sample_in_the_shards(tmp_path: Path, scheme: str) -> None:
    names = clients(scheme)
    target = {"s3": "local", "gs": "local_gs"}[scheme]
    jobs = run(tmp_path, *SMALL, f"target={target}", f"client={','.join(names)}")
    assert {job["client"]: job["verification"]["checked"] for job in jobs} == dict.fromkeys(names, 40)
    decoded = {job["client"] for job in jobs if job["parameters"].get("decoded")}
    assert decoded == {name for name in names if name.endswith("-decode")}
    # All count the bytes that are stored, whatever they deliver.
    assert len({job["figures"]["content_mib"]["value"] for job in jobs}) == 1
    assert {"a sample is" in job["details"]["sample"] for job in jobs} == {True}


@pytest.mark.nightly  # a list of members from shards is made on each commit
def test_shards_that_somebody_else_packed_are_read_where_they_lie(tmp_path: Path) -> None:
    with launch_testbed(buckets=["theirs"], log_requests=10_000) as testbed:
        config = Config(signature_version=UNSIGNED, s3={"addressing_style": "path"})
        client = boto3.client("s3", endpoint_url=testbed.s3_endpoint, region_name="us-east-1", config=config)
        for shard in range(3):
            body = io.BytesIO()
            with tarfile.open(fileobj=body, mode="w", format=tarfile.PAX_FORMAT) as archive:
                for number in range(10 * shard, 10 * shard + 10):
                    for extension in ("txt", "seg.PNG"):
                        member = tarfile.TarInfo(f"ü.v1/{number:04}.{extension}")
                        member.size = number * 100
                        archive.addfile(member, io.BytesIO(bytes([number]) * member.size))
            client.put_object(Bucket="theirs", Key=f"shards/{shard}.tar", Body=body.getvalue())
        client.put_object(Bucket="theirs", Key="shards/", Body=b"")
        testbed.reset_counts()
        where = ["target=s3", "target.bucket=theirs", f"target.endpoint={testbed.s3_endpoint}", "target.anonymous=true"]
        where += ["target.path_style=true", "data=existing", "data.prefix=shards/"]
        small = [override for override in SMALL if not override.startswith(("workload", "data.", "network"))]
        jobs = run(
            tmp_path,
            *where,
            *small,
            "client=torchbucket-tar,webdataset,s3torchconnector-tar",
            "target.region=us-east-1",
        )
        assert [job["verification"]["checked"] for job in jobs] == [30, 30, 30]
        assert [one.key for one in testbed.requests() if one.method not in ("GET", "HEAD")] == []
