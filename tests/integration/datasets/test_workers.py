"""Real DataLoader workers, every way to start them: each object once, errors that name it, and never a hang."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from torchbucket.store import open_store

PROGRAM = Path(__file__).with_name("loader_program.py")
HANG_LIMIT_S = 110
METHODS = pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
COUNT = 23
EXPECTED = [[f"train/{index:03}", index * 1000] for index in range(COUNT)]


@pytest.fixture
def prefix(tmp_path: Path) -> str:
    root = f"file://{tmp_path}/bucket"
    store = open_store(root)
    for key, size in EXPECTED:
        store.write(key, b"x" * size)
    return f"{root}/"


def run(scenario: str, method: str, *arguments: str):
    """What the program printed; fails where it does not end."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", PROGRAM, scenario, method, *arguments],
        capture_output=True,
        text=True,
        timeout=HANG_LIMIT_S,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@METHODS
def test_each_object_once_in_every_epoch(prefix, method):
    found = run("epochs", method, prefix)
    for first, second, used in found.values():
        assert sorted(first) == EXPECTED
        assert second == first
        assert used == EXPECTED
    assert found["MapDataset"][0] == EXPECTED
    # Two workers deal batches of five in turn, each from its own share: 0, 2, 4, … and 1, 3, 5, …
    assert found["IterableDataset"][0][:10] == EXPECTED[0:10:2] + EXPECTED[1:10:2]


@METHODS
def test_an_epoch_left_early_leaves_nothing_that_hangs(prefix, method):
    assert run("early", method, prefix) == [EXPECTED[0:10:2]] * 2


@METHODS
def test_an_error_in_a_worker_arrives_typed_and_names_the_object(prefix, method):
    read, transform = run("failing", method, prefix)
    assert read["kind"] == "NotFoundError"
    assert f"{prefix}not-there" in read["message"]
    assert "DataLoader worker process 0" in read["message"]
    assert transform["kind"] == "ValueError"
    assert "a label is missing" in transform["message"]
    assert f"while transforming {prefix}train/000" in transform["message"]


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_ranks_that_only_torch_distributed_knows(prefix, method):
    first, second = run("ranks", method, prefix)
    assert sorted(first + second) == EXPECTED
    assert sorted(first) == EXPECTED[0::2]
