"""A testbed for both providers, and a file system for each."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest
from bucket_places import Place

from buckettestbed.launch import RunningTestbed, launch_testbed
from torchbucket import RetryConfig, StoreConfig
from torchbucket.fsspec import BucketFileSystem, register, unregister

_numbers = itertools.count()


@pytest.fixture(scope="session")
def testbed() -> Iterator[RunningTestbed]:
    with launch_testbed(buckets=["data"]) as running:
        yield running


@pytest.fixture(scope="session")
def place_for(testbed: RunningTestbed) -> Iterator[Callable[[str], Place]]:
    def place(protocol: str) -> Place:
        config = StoreConfig(
            endpoint=testbed.s3_endpoint if protocol == "s3" else testbed.gcs_endpoint,
            part_size_bytes=5 << 20,
            hedge_share=0.0,
            retry=RetryConfig(initial_s=0.001, maximum_s=0.05, max_attempts=3),
        )
        fs = BucketFileSystem(protocol=protocol, config=config)
        return Place(testbed, protocol, config, fs, f"data/area-{next(_numbers)}")

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "AKIATEST")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        yield place


@pytest.fixture(params=["s3", "gs"])
def place(request: pytest.FixtureRequest, place_for: Callable[[str], Place]) -> Iterator[Place]:
    place = place_for(request.param)
    yield place
    place.testbed.set_faults([])


@pytest.fixture
def registered(place: Place) -> Iterator[Place]:
    """The file system, registered for its provider with the testbed's settings."""
    register(place.config, protocols=place.protocol)
    yield place
    unregister()
