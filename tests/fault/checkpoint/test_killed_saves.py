"""However a save ends, its address holds a whole checkpoint, the one before or the new one; two rights suffice."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from forked_programs import start

import torchbucket
from buckettestbed.launch import RunningTestbed, launch_testbed
from buckettestbed.operations import gcs_json, gcs_xml, s3
from torchbucket import StoreConfig
from torchbucket.cli import main
from torchbucket.config import MIB
from torchbucket.store import open_store
from torchbucket.uri import ObjectURI

PROGRAM = Path(__file__).with_name("killed_save_program.py")


@dataclass(frozen=True)
class Bucket:
    """A bucket of the testbed behind one provider's port."""

    testbed: RunningTestbed
    uri: str
    config: StoreConfig

    @property
    def endpoint(self) -> str:
        assert self.config.endpoint is not None
        return self.config.endpoint


@pytest.fixture(scope="module")
def testbed() -> Iterator[RunningTestbed]:
    with launch_testbed(buckets=["data"], opaque_etags=True) as running:
        yield running


@pytest.fixture(params=["s3", "gs"])
def bucket(request: pytest.FixtureRequest, testbed: RunningTestbed) -> Iterator[Bucket]:
    endpoint = testbed.s3_endpoint if request.param == "s3" else testbed.gcs_endpoint
    config = StoreConfig(endpoint=endpoint, anonymous=True, part_size_bytes=5 * MIB)
    yield Bucket(testbed, f"{request.param}://data/{request.param}-run", config)
    testbed.set_faults([])


def swept(bucket: Bucket) -> str:
    """Removes what is left by the command, and returns the bucket's open uploads after that."""
    options = ["--uploads", "--older-than", "0s", "--endpoint", bucket.endpoint, "--anonymous"]
    assert main(["sweep-temporaries", bucket.uri, *options]) == 0
    return str(bucket.testbed.open_uploads() or "")


def loaded(uri: str, config: StoreConfig) -> dict[str, Any]:
    while True:
        with contextlib.suppress(torchbucket.ObjectChangedError):  # The last request may be on its way still.
            return cast("dict[str, Any]", torchbucket.load(uri, config=config))


@pytest.mark.parametrize("kills", [4, pytest.param(100, marks=pytest.mark.nightly)])
def test_a_save_that_is_killed_leaves_a_whole_checkpoint(bucket: Bucket, kills: int) -> None:
    uri, moments = f"{bucket.uri}/last.pt", random.Random(20)
    torchbucket.save({"epoch": 0, "weight": torch.zeros(3 * MIB)}, uri, config=bucket.config)
    # Each request takes a while, so that most moments are within a save.
    bucket.testbed.set_faults([{"kind": "delay", "seconds": 0.03, "methods": ["PUT", "POST"]}])
    epochs, left = set(), 0
    for _ in range(kills):
        running = start(PROGRAM, uri, bucket.endpoint)
        time.sleep(moments.uniform(0.05, 0.6))
        os.kill(running.pid, signal.SIGKILL)
        assert running.wait().returncode == -signal.SIGKILL
        checkpoint = loaded(uri, bucket.config)
        assert (checkpoint["weight"] == checkpoint["epoch"]).all()
        assert checkpoint["weight"].shape == (3 * MIB,)
        epochs.add(checkpoint["epoch"])
        location = ObjectURI.parse(bucket.uri)
        names = [info.key for info in open_store(location, bucket.config).list(location.key)]
        assert names == [ObjectURI.parse(uri).key]
        left += len(bucket.testbed.open_uploads())
        limit_s = time.monotonic() + 30
        while found := swept(bucket):  # A request that was on its way may begin an upload still.
            assert time.monotonic() < limit_s, found
    if kills > 10:
        assert len(epochs) > 1
        assert left > 10


def test_without_parts_a_large_save_is_one_request(bucket: Bucket) -> None:
    uri, state = f"{bucket.uri}/one-request.pt", {"weight": torch.arange(3.0 * MIB)}
    for way in ({}, {"_use_new_zipfile_serialization": False}):
        bucket.testbed.reset_counts()
        torchbucket.save(state, uri, config=bucket.config, multipart=False, **way)
        assert bucket.testbed.counts()["requests"] == {"put_object": 1}
        assert torch.equal(torchbucket.load(uri, config=bucket.config)["weight"], state["weight"])


def test_the_rights_to_put_and_to_get_suffice(bucket: Bucket) -> None:
    """Every other request is refused, and is none of those that a save or a load makes."""
    if bucket.uri.startswith("s3"):
        dialects = [("s3", s3.OPERATIONS)]
        # Source: Amazon S3 user guide, "Multipart upload and permissions": these need PutObject alone.
        granted = {"put_object", "create_upload", "upload_part", "complete_upload"}
    else:
        dialects = [("gcs", gcs_xml.OPERATIONS | gcs_json.OPERATIONS)]
        granted = {"put_object", "create_upload", "upload_part", "complete_upload"}
    granted |= {"get_object", "get_object_range", "head_object"}
    rules = [
        {"kind": "error", "status": 403, "dialect": dialect, "operations": sorted(set(names) - granted - {"unknown"})}
        for dialect, names in dialects
    ]
    bucket.testbed.set_faults(rules)
    with contextlib.suppress(torchbucket.PermissionDeniedError):
        list(open_store(ObjectURI.parse(bucket.uri), bucket.config).list())
    assert [rule["injected"] for rule in bucket.testbed.faults()["rules"]] == [1]
    for number, elements in enumerate((10, 3 * MIB)):  # one request, and several
        for way, others in (("in-place", {}), ("plain", {"meta": torch.empty(1, device="meta")})):
            state = {"weight": torch.full((elements,), float(number)), **others}
            uri = f"{bucket.uri}/{way}-{number}.pt"
            torchbucket.save(state, uri, config=bucket.config, verify=True)
            assert torch.equal(torchbucket.load(uri, config=bucket.config)["weight"], state["weight"])
            torchbucket.save_async(state, f"{bucket.uri}/async-{way}-{number}.pt", config=bucket.config).result()
    assert [rule["injected"] for rule in bucket.testbed.faults()["rules"]] == [1]
