"""The harness in this process, with the testbeds and data sets of a user's sweep."""

from __future__ import annotations

from pathlib import Path

import pytest
from stubbed_sweeps import StubbedHarness


@pytest.fixture
def measuring_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StubbedHarness:
    """Jobs are measured in this process: for what does not depend on where they are."""
    monkeypatch.chdir(tmp_path)
    return StubbedHarness(monkeypatch, serves=True, measured="here")


@pytest.fixture
def measuring_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StubbedHarness:
    """Each job is measured in a process of its own, as ever."""
    monkeypatch.chdir(tmp_path)
    return StubbedHarness(monkeypatch, serves=True, measured="apart")
