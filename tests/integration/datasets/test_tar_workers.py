"""Tar shards on S3 and Cloud Storage, in DataLoaders with workers: each sample once, resumed exactly, little wasted."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from pathlib import Path

import forked_programs
import pytest

from buckettestbed.launch import RunningTestbed, launch_testbed
from torchbucket import RetryConfig, StoreConfig, StoreError, TarDataset
from torchbucket.store import open_store

PROGRAM = Path(__file__).with_name("tar_program.py")
SHARDS, SAMPLES = 7, 9


@pytest.fixture(scope="module")
def testbed() -> Iterator[RunningTestbed]:
    with launch_testbed(buckets=["data"]) as running:
        store = open_store("s3://data", config_of(running, "s3"))
        for shard in range(SHARDS):
            body = io.BytesIO()
            with tarfile.open(fileobj=body, mode="w") as writer:
                for number in range(shard * SAMPLES, (shard + 1) * SAMPLES):
                    for extension, content in (
                        ("txt", str(number).encode()),
                        ("bin", bytes([number % 256]) * (number * 50)),
                    ):
                        info = tarfile.TarInfo(f"{number:04}.{extension}")
                        info.size = len(content)
                        writer.addfile(info, io.BytesIO(content))
            store.write(f"shards/train-{shard:02}.tar", body.getvalue())
        store.write("shards/README.txt", b"not a shard")
        store.write("large/large.tar", large_archive())
        yield running


def large_archive() -> bytes:
    body = io.BytesIO()
    with tarfile.open(fileobj=body, mode="w") as writer:
        for number in range(6):
            for extension, content in (("json", b"{}"), ("mp4", bytes(3 << 20))):
                info = tarfile.TarInfo(f"{number}.{extension}")
                info.size = len(content)
                writer.addfile(info, io.BytesIO(content))
    return body.getvalue()


def config_of(testbed: RunningTestbed, scheme: str, **settings) -> StoreConfig:
    if scheme == "gs":
        return StoreConfig(endpoint=testbed.gcs_endpoint, anonymous=True, **settings)
    return StoreConfig(endpoint=testbed.s3_endpoint, region="us-east-1", anonymous=True, **settings)


# That each worker by spawn imports torch costs seconds; test_workers has other data sets sent so on each commit.
@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.nightly)])
def test_loaders_with_workers_stop_and_go_on(testbed, method):
    done = forked_programs.run(PROGRAM, "gs://data/shards/", testbed.gcs_endpoint, method)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == SHARDS * SAMPLES


@pytest.mark.parametrize("scheme", ["s3", "gs"])
def test_a_shard_is_read_once_in_as_few_requests_as_it_has_parts(testbed, scheme):
    config = config_of(testbed, scheme, hedge_share=0)  # A second request, for a late read, would count.
    dataset = TarDataset.from_objects(f"{scheme}://data/shards/train-{{00..06}}.tar", config=config)
    testbed.reset_counts()
    assert len(list(dataset)) == SHARDS * SAMPLES
    assert testbed.counts()["requests"] == {"get_object_range": SHARDS}


def test_headers_and_wanted_members_alone_cross_the_network(testbed):
    dataset = TarDataset.from_prefix(
        "s3://data/large/", config=config_of(testbed, "s3", hedge_share=0), extensions=["json"], fetch="lazy"
    )
    testbed.reset_counts()
    assert [sample["json"] for sample in dataset] == [b"{}"] * 6
    counts = testbed.counts()
    assert counts["bytes_out"] < 1 << 20
    assert counts["requests"]["get_object_range"] <= 8


@pytest.mark.parametrize("kind", ["truncate", "reset", "error"])
def test_faults_on_the_way_are_overcome_or_end_the_epoch_with_an_error(testbed, kind):
    # Patient enough for the first part, where two requests of five fail, and soon at its end in the second.
    config = config_of(testbed, "s3", retry=RetryConfig(initial_s=0.01, maximum_s=0.05, max_attempts=12))
    rule = {"kind": kind, "key": "shards/*", "probability": 0.4} | ({"status": 503} if kind == "error" else {})
    dataset = TarDataset.from_prefix("s3://data/shards/", config=config)
    testbed.set_faults([rule])
    try:
        assert [int(sample["__key__"]) for sample in dataset] == list(range(SHARDS * SAMPLES))
        testbed.set_faults([rule | {"probability": 1.0, "key": "shards/train-03.tar"}])
        seen = []
        with pytest.raises(StoreError, match=r"train-03\.tar"):
            seen.extend(int(sample["__key__"]) for sample in dataset)
        assert seen == list(range(3 * SAMPLES))
    finally:
        testbed.set_faults("none")
