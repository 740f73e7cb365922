"""A load takes the checkpoint's size of memory and little else, as the operating system counts it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from forked_programs import run

from buckettestbed import RunningTestbed, launch_testbed

MIB = 1 << 20
PROGRAM = Path(__file__).with_name("load_memory_program.py")


@pytest.fixture(scope="module")
def testbed() -> Iterator[RunningTestbed]:
    with launch_testbed(buckets=["runs"]) as running:
        yield running


def ran(testbed: RunningTestbed, action: str, tensors: int, mib: int) -> str:
    done = run(PROGRAM, testbed.s3_endpoint, action, tensors, mib)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("tensors", "mib", "forms"),
    [
        (128, 128, [""]),
        pytest.param(128, 384, ["", "-legacy"], marks=pytest.mark.nightly),
        pytest.param(2000, 384, ["", "-legacy"], marks=pytest.mark.nightly),
        pytest.param(1, 384, ["", "-legacy"], marks=pytest.mark.nightly),
    ],
)
def test_a_load_adds_the_checkpoint_and_little_else(
    testbed: RunningTestbed, tensors: int, mib: int, forms: list[str]
) -> None:
    for form in forms:
        ran(testbed, f"save{form}", tensors, mib)
        added = int(ran(testbed, f"load{form}", tensors, mib))
        assert 0.9 * mib * MIB < added < 1.05 * mib * MIB + 64 * MIB, f"load{form} added {added / MIB:.0f} MiB"
