"""The harness with a stub in the place of the measured process."""

from __future__ import annotations

from pathlib import Path

import pytest
from stubbed_sweeps import StubbedHarness


@pytest.fixture
def harness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StubbedHarness:
    """Nothing is started at all."""
    monkeypatch.chdir(tmp_path)
    return StubbedHarness(monkeypatch, serves=False)


@pytest.fixture
def serving_harness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StubbedHarness:
    """Testbeds serve and data sets are made; nothing is measured."""
    monkeypatch.chdir(tmp_path)
    return StubbedHarness(monkeypatch, serves=True)
