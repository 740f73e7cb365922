"""Real sweeps of the listing scenario; what a comparison says of several clients is in tests/unit/report."""

from __future__ import annotations

from pathlib import Path

import pytest
from result_schemas import validate_run
from stubbed_sweeps import StubbedHarness

pytestmark = pytest.mark.timeout(300)

DATAFLUX = Path(__file__).parents[3] / ".venv-dataflux" / "bin" / "python"
NAMES = 300
SMALL = ["listing", f"names.count={NAMES}", "network=none", "repeat=0"]


def test_names_are_listed_until_that_took_long_enough(measuring_apart: StubbedHarness) -> None:
    done = measuring_apart.run(*SMALL, "client=torchbucket", "passes=auto", "min_measured_s=0.05")
    assert done.status == 0, done.err
    assert done.directory is not None
    validate_run(done.directory)
    (job,) = done.jobs
    figures = {name: figure["value"] for name, figure in job["figures"].items()}
    assert figures["names"] == NAMES * figures["listings"]
    assert figures["wall_s"] >= 0.05
    assert figures["errors"] == 0
    assert figures["pages_per_listing"] == figures["requests_per_listing"] == 1
    assert 0 < figures["time_to_first_name_s"] <= figures["list_s"] * 1.5
    assert job["verification"]["checked"] == NAMES * figures["listings"]
    assert job["versions"]["torchbucket"]


@pytest.mark.nightly
@pytest.mark.skipif(not DATAFLUX.exists(), reason="utils/setup_peer_env.sh dataflux has not made its environment")
def test_a_client_with_an_interpreter_of_its_own(measuring_apart: StubbedHarness) -> None:
    done = measuring_apart.run(*SMALL, "passes=1", "target=local_gs", "client=dataflux", "names.shape=hot")
    assert done.status == 0, done.err
    job = done.job("dataflux")
    assert job["verification"]["checked"] == NAMES
    assert job["versions"]["google-cloud-storage"].startswith("2.")
