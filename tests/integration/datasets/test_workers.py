"""Real DataLoader workers, every way to start them: each object once, errors that name it, and never a hang."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from loader_runs import EXPECTED, fill, run

from buckettestbed.launch import launch_testbed
from torchbucket import StoreConfig
from torchbucket.store import open_store

# What differs between the methods is how a worker gets its data set, which whole epochs show; forkserver sends it as
# spawn does, and its workers share one import of torch.
METHODS = pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.nightly)])


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with launch_testbed(buckets=["data"]) as testbed:
        config = StoreConfig(endpoint=testbed.s3_endpoint, region="us-east-1", anonymous=True)
        fill(open_store("s3://data", config))
        yield testbed.s3_endpoint


@pytest.fixture
def prefix(tmp_path: Path) -> str:
    root = f"file://{tmp_path}/bucket"
    fill(open_store(root))
    return f"{root}/"


@pytest.mark.parametrize(
    ("scheme", "method"),
    [
        ("file", "fork"),
        ("s3", "fork"),
        ("s3", "forkserver"),
        pytest.param("s3", "spawn", marks=pytest.mark.nightly),
    ],
)
def test_each_object_once_in_every_epoch(prefix, endpoint, scheme, method):
    place = (prefix,) if scheme == "file" else ("s3://data/train/", endpoint)
    found = run("epochs", method, *place)
    for first, second, used in found.values():
        assert sorted(first) == EXPECTED
        assert second == first
        assert used == EXPECTED
    assert found["MapDataset"][0] == EXPECTED
    # Two workers deal batches of five in turn, each from its own share: 0, 2, 4, … and 1, 3, 5, …
    assert found["IterableDataset"][0][:10] == EXPECTED[0:10:2] + EXPECTED[1:10:2]


@METHODS
def test_an_epoch_left_early_leaves_nothing_that_hangs(endpoint, method):
    assert run("early", method, "s3://data/train/", endpoint) == [EXPECTED[0:10:2]] * 2


@METHODS
def test_an_error_in_a_worker_arrives_typed_and_names_the_object(endpoint, method):
    read, transform = run("failing", method, "s3://data/train/", endpoint)
    assert read["kind"] == "NotFoundError"
    assert "s3://data/train/not-there" in read["message"]
    assert "DataLoader worker process 0" in read["message"]
    assert transform["kind"] == "ValueError"
    assert "a label is missing" in transform["message"]
    assert "while transforming s3://data/train/000" in transform["message"]


@METHODS
def test_ranks_that_only_torch_distributed_knows(prefix, method):
    first, second = run("ranks", method, prefix)
    assert sorted(first + second) == EXPECTED
    assert sorted(first) == EXPECTED[0::2]


def test_ctrl_c_ends_the_epoch_and_its_workers(endpoint):
    assert run("interrupted", "fork", "s3://data/train/", endpoint) == {"MapDataset": [], "IterableDataset": []}


def test_a_loader_s_timeout_ends_the_wait(endpoint):
    assert "timed out after 1 seconds" in run("waiting", "fork", "s3://data/train/", endpoint)
