"""Sweeps on the testbed's other port: the same objects as Cloud Storage, also for a client with its own interpreter."""

from __future__ import annotations

from pathlib import Path

import pytest
from stubbed_sweeps import StubbedHarness
from sweeps import SAMPLES, SMALL, Workplace, new_workplace

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def place(tmp_path: Path) -> Workplace:
    return new_workplace(tmp_path)


def test_both_ports_serve_one_data_set(measuring_here: StubbedHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    # Whoever runs this has credentials and authorities of their own, which must not get in the way.
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/no/such/file")
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://127.0.0.1:9")
    done = measuring_here.run(
        "dataset", *SMALL, "dataloader.num_workers=0", "repeat=0", "client=torchbucket-map", "target=local,local_gs",
        "+client.options.hedge_share=0",  # a late read is not asked for twice
    )  # fmt: skip
    assert done.status == 0, done.err
    assert [job["parameters"]["target"] for job in done.jobs] == ["local", "local_gs"]
    for job in done.jobs:
        assert job["verification"]["checked"] == SAMPLES
        assert job["figures"]["server_requests"]["value"] == SAMPLES
        assert "objects_left" not in job["details"]
    assert done.err.count(f"0 of {SAMPLES} objects, 0 B") == 1, "made once for both"


@pytest.mark.nightly  # The environment of gcs-torch-dataflux may have to be made first.
@pytest.mark.timeout(900)
def test_a_client_in_an_interpreter_of_its_own(place: Workplace) -> None:
    # Over TLS, which it is harder to tell it of.
    done = place.run(
        "repeat=0", "client=dataflux-map,dataflux-iterable", "target=local_gs", "target.tls=true",
        "dataloader.num_workers=0", "warmup_samples=2", "dataloader.batch_size=8",
    )  # fmt: skip
    assert done.status == 0, done.err
    for job in done.results["jobs"]:
        assert job["verification"]["checked"] == SAMPLES
        assert job["versions"]["google-cloud-storage"].startswith("2.")
        assert job["versions"]["dataflux_pytorch"]
    composed = done.job("dataflux-map")
    assert composed["figures"]["server_requests"]["value"] == 3 * SAMPLES // 8, "three requests for eight objects"
    # Its warm-up ended within a composed object, and left that object behind; a map data set's cannot.
    assert done.job("dataflux-iterable")["details"]["objects_left"] == "1"
    assert "objects_left" not in composed["details"]
