"""Sweeps of the scenario of Lightning's checkpoints; on each commit they are measured in this process."""

from __future__ import annotations

from typing import Any

import pytest
from result_schemas import validate_run
from stubbed_sweeps import StubbedHarness

pytestmark = pytest.mark.timeout(300)


def swept(harness: StubbedHarness, *overrides: str) -> dict[str, dict[str, Any]]:
    """The jobs of a sweep with a small model, by their clients."""
    small = ["repeat=0", "network=none", "checkpoint=small", "checkpoint.size=1MiB", "steps=2"]
    done = harness.run("lightning_checkpointing", *small, *overrides)
    assert done.status == 0, done.err
    assert done.directory is not None
    validate_run(done.directory)
    return {job["client"]: job for job in done.jobs}


def check(job: dict[str, Any], *, is_blocked_for_less: bool) -> None:
    assert job["status"] == "ok"
    assert job["verification"]["checked"] == 2 * 16  # tensors of both steps
    figures = {name: figure["value"] for name, figure in job["figures"].items()}
    assert figures["checkpoints"] == 2
    assert figures["requests_per_save"] >= 1
    assert figures["requests_per_load"] >= 1
    assert (figures["blocked_s"] is not None) == is_blocked_for_less


def test_a_trainer_saves_in_the_background(measuring_here: StubbedHarness) -> None:
    check(swept(measuring_here, "client=torchbucket-async")["torchbucket-async"], is_blocked_for_less=True)


@pytest.mark.nightly
def test_lightnings_default_on_both_ports(measuring_apart: StubbedHarness) -> None:
    for target, library in (("local", "s3fs"), ("local_gs", "gcsfs")):
        names = [f"default-{library}", f"default-{library}-async"]
        jobs = swept(measuring_apart, f"target={target}", f"client={','.join(names)}")
        assert list(jobs) == names
        for name, job in jobs.items():
            check(job, is_blocked_for_less=name.endswith("-async"))
