"""Sweeps that are ended at five moments and by three signals leave nothing behind, and go on where they ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from interruptions import MOMENTS, end_at

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(900)]

CASES = [(name, signal.SIGINT, None) for name in MOMENTS]
CASES += [("job", signal.SIGTERM, None), ("job", signal.SIGHUP, None), ("job", signal.SIGINT, 0.3)]


@pytest.mark.parametrize(("name", "number", "again_after_s"), CASES)
def test_nothing_is_left_and_the_sweep_can_be_resumed(
    tmp_path: Path, name: str, number: signal.Signals, again_after_s: float | None
) -> None:
    ended = end_at(MOMENTS[name], tmp_path, number=number, again_after_s=again_after_s)
    assert ended.left == (), ended.err
    assert "Traceback" not in ended.err
    if again_after_s is None:
        assert ended.status == 130, ended.err
    assert ended.run is not None
    if name == "data":
        return  # to make the rest takes minutes, and the same is resumed in the other cases
    resumed = subprocess.run(
        [sys.executable, "-m", "bucketbench.cli", "resume", str(ended.run)],
        cwd=tmp_path, env=os.environ, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert resumed.returncode == 0, resumed.stderr
    results = json.loads((ended.run / "run_results.json").read_bytes())
    assert len(results["jobs"]) == results["jobs_planned"]
    assert {job["status"] for job in results["jobs"]} == {"ok"}
