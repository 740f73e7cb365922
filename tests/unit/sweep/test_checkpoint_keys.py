"""Where the checkpoints of jobs lie that may run at once."""

from __future__ import annotations

import importlib

from stubbed_sweeps import StubbedHarness

from bucketbench.checkpointing import preparation


def prefixes(harness: StubbedHarness) -> list[str]:
    """What begins the keys of the two jobs of a sweep."""
    harness.worker.started.clear()
    harness.run("pytorch_checkpointing", "client=boto3", "repeat=0,1", "checkpoint=small", "prefix=runs/mine")
    return [str(job.description.job["target"]["prefix"]) for job in harness.worker.started]


def test_the_jobs_of_a_process_replace_what_one_has_left_and_other_processes_have_keys_of_their_own(
    harness: StubbedHarness,
) -> None:
    first, second = prefixes(harness)
    importlib.reload(preparation)  # as another process imports it
    third, _ = prefixes(harness)
    assert first == second != third
    for found in (first, third):
        assert found.startswith("runs/mine/bucketbench-")
        assert found.endswith("/")
