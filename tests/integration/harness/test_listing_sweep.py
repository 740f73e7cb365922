"""Real sweeps of the listing scenario, as a user starts them."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from finished_sweeps import NO_PAGE
from result_schemas import validate_run

pytestmark = pytest.mark.timeout(300)

DATAFLUX = Path(__file__).parents[3] / ".venv-dataflux" / "bin" / "python"
NAMES = 300
SMALL = [f"names.count={NAMES}", "network=none", "passes=1", "repeat=0"]


@dataclass(frozen=True, kw_only=True)
class Place:
    """A directory in which sweeps are started."""

    directory: Path

    def run(self, *overrides: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "bucketbench.cli", "run", "listing", *SMALL, NO_PAGE, *overrides],
            cwd=self.directory,
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )

    def results(self) -> dict[str, Any]:
        """Those of the newest sweep."""
        (newest, *_) = sorted((self.directory / "multirun" / "listing").glob("*"), reverse=True)
        validate_run(newest)
        return json.loads((newest / "run_results.json").read_bytes())

    def jobs(self) -> dict[str, dict[str, Any]]:
        return {job["client"]: job for job in self.results()["jobs"]}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(directory=tmp_path)


def test_two_clients_are_compared(place: Place) -> None:
    done = place.run("client=torchbucket,boto3", "passes=auto", "min_measured_s=0.05")
    assert done.returncode == 0, done.stderr
    assert "listing scenario: 2 jobs of 2 clients, 0 failed" in " ".join(done.stdout.split())
    assert "times the speed of" in " ".join(done.stdout.split())
    results = place.results()
    assert [(job["repeat"], job["client"]) for job in results["jobs"]] == [
        (0, client) for client in ("torchbucket", "boto3")
    ]
    for job in results["jobs"]:
        figures = {name: figure["value"] for name, figure in job["figures"].items()}
        assert figures["names"] == NAMES * figures["listings"]
        assert figures["wall_s"] >= 0.05
        assert figures["errors"] == 0
        assert figures["pages_per_listing"] == figures["requests_per_listing"] == 1
        assert 0 < figures["time_to_first_name_s"] <= figures["list_s"] * 1.5
        assert job["verification"]["checked"] == NAMES * figures["listings"]
        assert job["versions"][job["client"]]


@pytest.mark.nightly
@pytest.mark.skipif(not DATAFLUX.exists(), reason="utils/setup_peer_env.sh dataflux has not made its environment")
def test_a_client_with_an_interpreter_of_its_own(place: Place) -> None:
    done = place.run("target=local_gs", "client=dataflux", "names.shape=hot")
    assert done.returncode == 0, done.stderr
    job = place.jobs()["dataflux"]
    assert job["verification"]["checked"] == NAMES
    assert job["versions"]["google-cloud-storage"].startswith("2.")
