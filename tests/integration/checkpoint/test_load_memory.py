"""A load takes the checkpoint's size of memory and little else, as the operating system counts it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from buckettestbed import RunningTestbed, launch_testbed

MIB = 1 << 20


@pytest.fixture
def testbed() -> Iterator[RunningTestbed]:
    with launch_testbed(buckets=["runs"]) as running:
        yield running


def ran(testbed: RunningTestbed, action: str, tensors: int, mib: int) -> str:
    program = Path(__file__).with_name("load_memory_program.py")
    command = [sys.executable, str(program), testbed.s3_endpoint, action, str(tensors), str(mib)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("tensors", "mib", "actions"),
    [
        (128, 128, ["load"]),
        pytest.param(128, 384, ["load", "load-legacy"], marks=pytest.mark.nightly),
        pytest.param(2000, 384, ["load", "load-legacy"], marks=pytest.mark.nightly),
        pytest.param(1, 384, ["load", "load-legacy"], marks=pytest.mark.nightly),
    ],
)
def test_a_load_adds_the_checkpoint_and_little_else(
    testbed: RunningTestbed, tensors: int, mib: int, actions: list[str]
) -> None:
    ran(testbed, "save", tensors, mib)
    for action in actions:
        added = int(ran(testbed, action, tensors, mib))
        assert 0.9 * mib * MIB < added < 1.05 * mib * MIB + 64 * MIB, f"{action} added {added / MIB:.0f} MiB"
