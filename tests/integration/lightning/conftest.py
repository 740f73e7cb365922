"""A bucket of the testbed behind each provider's port, which fsspec finds as well."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import fsspec.config
import pytest

from buckettestbed.launch import RunningTestbed, launch_testbed
from torchbucket import StoreConfig
from torchbucket.fsspec import register, unregister
from torchbucket.store import open_store
from torchbucket.uri import ObjectURI


@dataclass(frozen=True)
class Bucket:
    """A place of its own for one test."""

    testbed: RunningTestbed
    uri: str
    config: StoreConfig

    def names(self) -> list[str]:
        """What lies in the place, without its address."""
        location = ObjectURI.parse(f"{self.uri}/")
        return [info.key[len(location.key) :] for info in open_store(location, self.config).list(location.key)]


@pytest.fixture(scope="session")
def testbed() -> Iterator[RunningTestbed]:
    with launch_testbed(buckets=["data"], opaque_etags=True) as running:
        yield running


def _place(scheme: str, testbed: RunningTestbed, request: pytest.FixtureRequest) -> Bucket:
    endpoint = testbed.s3_endpoint if scheme == "s3" else testbed.gcs_endpoint
    name = re.sub(r"\W+", "-", request.node.name)
    return Bucket(testbed, f"{scheme}://data/{name}", StoreConfig(endpoint=endpoint, anonymous=True))


@pytest.fixture
def bucket(request: pytest.FixtureRequest, testbed: RunningTestbed) -> Iterator[Bucket]:
    place = _place("s3", testbed, request)
    register(config=place.config)
    yield place
    unregister()
    testbed.set_faults([])


@pytest.fixture
def bucket_by_s3fs(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """One that fsspec reaches by s3fs, as it does without torchbucket."""
    unregister()
    monkeypatch.setitem(fsspec.config.conf, "s3", {"anon": True, "endpoint_url": bucket.testbed.s3_endpoint})
    return bucket


@pytest.fixture(params=["s3", "gs"])
def either_bucket(request: pytest.FixtureRequest, testbed: RunningTestbed) -> Iterator[Bucket]:
    yield _place(request.param, testbed, request)
    testbed.set_faults([])
