"""One testbed for the tests that list, with both providers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from buckettestbed.launch import RunningTestbed, launch_testbed

BUCKET = "listing"


@pytest.fixture(scope="package")
def testbed() -> Iterator[RunningTestbed]:
    # Answers after a random time, so that pages overtake one another.
    model = {"first_byte_s": 0.002, "first_byte_distribution": "lognormal", "first_byte_sigma": 0.8}
    with launch_testbed(buckets=[BUCKET], network=model, log_requests=2000) as running:
        yield running


@pytest.fixture(autouse=True)
def fresh_testbed(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "testbed" in request.fixturenames:
        request.getfixturevalue("testbed").set_faults("none")
