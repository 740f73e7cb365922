"""Resuming with real loaders and workers: torchdata's, torch's own, other numbers of workers and ranks."""

from __future__ import annotations

from pathlib import Path

import pytest
from loader_runs import fill, run

from torchbucket.store import open_store


@pytest.fixture
def prefix(tmp_path: Path) -> str:
    root = f"file://{tmp_path}/bucket"
    fill(open_store(root))
    return f"{root}/train/"


@pytest.mark.parametrize(
    ("scenario", "method"),
    [
        ("every_way", "fork"),
        pytest.param("one_way", "spawn", marks=pytest.mark.nightly),
        pytest.param("one_way", "forkserver", marks=pytest.mark.nightly),
        ("other_topology", "fork"),
        ("refused", "fork"),
        ("plain", "fork"),
        ("reseeded", "fork"),
        ("side_by_side", "fork"),
        ("sampler", "fork"),
    ],
)
def test_what_the_program_checks_holds(prefix, scenario, method):
    assert run(scenario, method, prefix, program="resume_program.py") == "done"
