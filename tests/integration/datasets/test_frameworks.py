"""Data sets under training frameworks that share out samples themselves, two ranks: each sample once, or an error.

On each commit by some ways of reading that a framework has, at night by all of them. The Trainer prepares its loaders
as accelerate does, and Fabric as Lightning does (`test_lightning`): both run at night.
"""

from __future__ import annotations

import importlib.util
import io
import json
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path

import forked_programs
import pytest

from torchbucket.store import open_store

pytestmark = pytest.mark.timeout(400)

PROGRAM = Path(__file__).with_name("framework_program.py")
HANG_LIMIT_S = 380
IMPORTS = {"accelerate": ("accelerate",)}
COUNT, WHOLE = 53, 48  # the second one is a multiple of a batch on every rank and in every worker
SHARDS, IN_SHARD = 5, 10
BATCH, RANKS, MOST_WORKERS = 4, 2, 2


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> str:
    root = f"file://{tmp_path_factory.mktemp('bucket')}"
    store = open_store(root)
    for number in range(COUNT):
        store.write(f"objects/{number:03}", b"x")
    for number in range(WHOLE):
        store.write(f"whole/{number:03}", b"x")
    for shard in range(SHARDS):
        body = io.BytesIO()
        with tarfile.open(fileobj=body, mode="w") as archive:
            for number in range(shard * IN_SHARD, (shard + 1) * IN_SHARD):
                archive.addfile(tarfile.TarInfo(f"{number:03}.txt"))
        store.write(f"shards/{shard}.tar", body.getvalue())
    return root


EVERY_WAY = pytest.param((), marks=pytest.mark.nightly, id="every way")


def some(*ways: str) -> object:
    """Ways of reading that each commit tries."""
    return pytest.param(ways, id="some ways")


def read_by_ranks(framework: str, bucket: str, directory: Path, ways: Sequence[str] = ()) -> dict[str, list]:
    """What each rank was given, by the way of reading: the ways that are named, or every one."""
    ranks = [
        forked_programs.start(
            PROGRAM, framework, bucket, directory / "meeting", rank, *ways, imports=IMPORTS.get(framework, ())
        )
        for rank in range(RANKS)
    ]
    ended = [rank.wait(HANG_LIMIT_S) for rank in ranks]
    assert [rank.returncode for rank in ended] == [0] * RANKS, "\n".join(rank.stderr[-3000:] for rank in ended)
    by_rank = [json.loads(rank.stdout) for rank in ended]
    assert not ways or set(by_rank[0]) == set(ways)
    return {way: [found[way] for found in by_rank] for way in by_rank[0]}


def check(found: dict[str, list], refused: dict[str, str], *, padding: int) -> None:
    """Every way that is not refused gives each sample, and none twice beyond what the framework fills up batches with.

    Args:
        found: what the ranks were given.
        refused: what the error says of the ways that are; both ranks are told.
        padding: how many samples may come once more in an epoch.
    """
    for way, by_rank in found.items():
        if way in refused:
            assert all(isinstance(told, str) and refused[way] in told for told in by_rank), (way, by_rank)
            continue
        expected = SHARDS * IN_SHARD if "tar" in way else WHOLE if len(by_rank[0]) == 1 else COUNT
        for epoch in zip(*by_rank, strict=True):
            samples = [sample for share in epoch for sample in share]
            assert sorted(set(samples)) == list(range(expected)), way
            assert len(samples) - expected <= (padding if expected != WHOLE else 0), way


@pytest.mark.parametrize(
    "ways",
    [
        some(
            "default stream 2",
            "default tar 2",
            "default given 0",
            "undispatched stream 2",
            "undispatched listed 0",
            "split undispatched stream 0",
            "dispatched map 2",
        ),
        EVERY_WAY,
    ],
)
def test_accelerate_gives_the_ranks_each_sample(bucket, tmp_path, ways):
    """Dispatched from one rank, and sliced by every rank, as ``prepare`` does; what would lose samples is refused."""
    pytest.importorskip("accelerate")
    found = read_by_ranks("accelerate", bucket, tmp_path, ways)
    refused = {
        "default tar 2": "set num_workers to 0 or 1, drop_last=True",
        "default stream 3": "set num_workers to 0 or 1, drop_last=True",
        "split stream 2": "set num_workers to 0 or 1, drop_last=True",
        "default given 0": "leave rank and world_size out",
        "undispatched given 0": "leave rank and world_size out",
    }
    assert refused.keys() < found.keys() or ways
    check(found, refused, padding=(BATCH * RANKS - 1) * MOST_WORKERS)
    # Every epoch has an order of its own, in which all ranks agree.
    for way in ("default stream 2", "undispatched stream 2"):
        assert all(first != second for first, second in found[way])


@pytest.mark.nightly
def test_the_transformers_trainer_gives_the_ranks_each_sample(bucket, tmp_path):
    pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    check(read_by_ranks("trainer", bucket, tmp_path), {}, padding=0)


@pytest.mark.parametrize(
    "ways",
    [
        some(
            "plain stream 2",
            "plain listed 0",
            "plain tar 2",
            "plain map 0",
            "plain given 0",
            "nodes",
            "stateful 2",
            "piped 0",
            "filtered 2",
            "filtered unshared 2",
        ),
        EVERY_WAY,
    ],
)
def test_torch_and_torchdata_give_the_ranks_each_sample(bucket, tmp_path, ways):
    """Plain and stateful loaders, nodes and data pipes; a ``sharding_filter`` shares out what is shared out already."""
    found = read_by_ranks("torch", bucket, tmp_path, ways)
    refused = {f"filtered {workers}": "leave sharding_filter out" for workers in (0, 2)}
    check(found, refused, padding=1)


@pytest.mark.nightly
def test_fabric_gives_the_ranks_each_sample(bucket, tmp_path):
    check(read_by_ranks("fabric", bucket, tmp_path), {}, padding=1)


@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="ray is not installed")
def test_ray_train_gives_the_ranks_each_sample(bucket, tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", PROGRAM.with_name("ray_program.py"), bucket, tmp_path],
        capture_output=True,
        text=True,
        timeout=HANG_LIMIT_S,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    check(json.loads(done.stdout.splitlines()[-1]), {}, padding=1)
