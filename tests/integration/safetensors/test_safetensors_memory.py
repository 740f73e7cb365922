"""What saving, loading and streaming add to a process's memory, as the operating system counts it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from forked_programs import run

from buckettestbed.launch import launch_testbed

MIB = 1 << 20
PROGRAM = Path(__file__).with_name("safetensors_memory_program.py")


@pytest.mark.parametrize(
    ("tensors", "mib"),
    [
        (100, 128),
        pytest.param(2000, 320, marks=pytest.mark.nightly),
        pytest.param(1, 320, marks=pytest.mark.nightly),
    ],
)
def test_memory_is_what_the_tensors_take(tensors: int, mib: int) -> None:
    with launch_testbed(buckets=["runs"]) as testbed:
        done = run(PROGRAM, testbed.s3_endpoint, tensors, mib)
    assert done.returncode == 0, done.stderr
    added = json.loads(done.stdout)
    size = (mib + 64) * MIB
    assert added["save"] < 64 * MIB, added
    assert 0.9 * size < added["load"] < 1.05 * size + 64 * MIB, added
    # The budget, the tensor in the consumer's hand, and what the store gathers.
    assert added["stream"] < max(32, mib // tensors, 64) * MIB * 2 + 64 * MIB, added
    # Eight ranges of 8 MiB, of which 128 KiB are wanted.
    assert added["slice"] < 8 * 8 * MIB + 32 * MIB, added
