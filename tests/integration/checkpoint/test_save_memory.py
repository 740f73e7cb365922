"""How much memory a save takes beside what it saves, measured in a process of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from forked_programs import run

from buckettestbed.launch import launch_testbed

PROGRAM = Path(__file__).with_name("save_memory_program.py")
CLEAR_REFS = Path("/proc/self/clear_refs")


@pytest.mark.skipif(not CLEAR_REFS.exists(), reason="the peak of memory is told by Linux alone")
@pytest.mark.parametrize(("state_mib", "budget_mib"), [(192, 32), pytest.param(384, 128, marks=pytest.mark.nightly)])
def test_the_memory_that_a_save_adds(state_mib: int, budget_mib: int) -> None:
    """Of tensors on the CPU, by writers that may hold so much."""
    with launch_testbed(buckets=["data"], opaque_etags=True) as testbed:
        ended = run(PROGRAM, testbed.s3_endpoint, state_mib, budget_mib)
    assert ended.returncode == 0, ended.stderr
    added = {name: int(mib) for name, mib in (line.split(": ") for line in ended.stdout.splitlines())}
    assert added["in place"] <= 64
    assert added["plain"] <= budget_mib + 128
    assert state_mib <= added["async"] <= state_mib + 64  # one copy
