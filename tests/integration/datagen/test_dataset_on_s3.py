"""Data sets on an S3 service: the testbed, over TLS and in the clear."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
import xxhash
from botocore.config import Config

from bucketbench.datagen import DatagenError, DatasetSpec, ensure_dataset, read_manifest
from buckettestbed.launch import RunningTestbed, launch_testbed

SPEC = DatasetSpec(num_samples=100, sample_size_bytes=20_000, size_distribution="lognormal")


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testbed")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "canary-of-a-secret")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)


@pytest.fixture(scope="module")
def testbed() -> Iterator[RunningTestbed]:
    with launch_testbed(buckets=["data"]) as running:
        yield running


def arguments(testbed: RunningTestbed) -> dict[str, Any]:
    ca_bundle = None if testbed.ca_certificate is None else str(testbed.ca_certificate)
    return {"endpoint": testbed.s3_endpoint, "region": "us-east-1", "ca_bundle": ca_bundle}


def test_what_lies_in_the_bucket_is_what_the_manifest_says(tmp_path: Path) -> None:
    with launch_testbed(buckets=["data"], tls=True) as testbed:
        reach = arguments(testbed)
        manifest = ensure_dataset("s3://data/sets/a", SPEC, processes=2, lock_directory=tmp_path, **reach)
        client = boto3.client(
            "s3",
            endpoint_url=testbed.s3_endpoint,
            region_name="us-east-1",
            verify=reach["ca_bundle"],
            config=Config(s3={"addressing_style": "path"}),
        )
        listed = {item["Key"]: item["Size"] for item in client.list_objects_v2(Bucket="data")["Contents"]}
        samples = {f"sets/a/{entry.key}": entry.size_bytes for entry in manifest.entries}
        assert listed.pop("sets/a.manifest.jsonl") > 0
        assert listed == samples
        for entry in manifest.entries[:: len(manifest.entries) // 10]:
            content = client.get_object(Bucket="data", Key=f"sets/a/{entry.key}")["Body"].read()
            assert xxhash.xxh3_128_hexdigest(content) == entry.xxh3_128
        testbed.reset_counts()
        assert ensure_dataset("s3://data/sets/a/", SPEC, lock_directory=tmp_path, **reach) == manifest
        assert "put_object" not in testbed.counts()["requests"]
        assert read_manifest("s3://data/sets/a", **reach) == manifest
        assert testbed.open_uploads() == []


@pytest.mark.usefixtures("in_this_process")
def test_shards_are_uploaded_whole(testbed: RunningTestbed, tmp_path: Path) -> None:
    spec = DatasetSpec(num_samples=30, sample_size_bytes=1 << 20, shard_size_bytes=20 << 20, image_format="bytes")
    manifest = ensure_dataset("s3://data/tar", spec, processes=1, lock_directory=tmp_path, **arguments(testbed))
    client = boto3.client("s3", endpoint_url=testbed.s3_endpoint, region_name="us-east-1")
    assert len(manifest) == 2
    for entry in manifest.entries:
        content = client.get_object(Bucket="data", Key=f"tar/{entry.key}")["Body"].read()
        assert xxhash.xxh3_128_hexdigest(content) == entry.xxh3_128
    assert testbed.open_uploads() == []


def test_a_missing_bucket_is_named_and_no_secret_is(testbed: RunningTestbed, tmp_path: Path) -> None:
    with pytest.raises(DatagenError, match="nothere") as caught:
        ensure_dataset("s3://nothere/set", SPEC, lock_directory=tmp_path, **arguments(testbed))
    assert "create it" in str(caught.value)
    assert "canary" not in str(caught.value)
    with pytest.raises(DatagenError, match="nothere"):
        read_manifest("s3://nothere/set", **arguments(testbed))
