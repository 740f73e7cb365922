"""One testbed for all clients, and one that serves TLS; credentials that nothing checks."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import dataflux_process
import gcsfs.retry
import pytest

from buckettestbed import RunningTestbed, launch_testbed

pytest.register_assert_rewrite(
    "broken", *(f"behaviours_{part}" for part in ("exchange", "listing", "names", "objects", "tls", "writing"))
)


@pytest.fixture(scope="session", autouse=True)
def _credentials() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "key")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        patch.setenv("NO_GCE_CHECK", "true")
        for name in ("AWS_CA_BUNDLE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE"):
            patch.delenv(name, raising=False)  # They come before the authority that a client is told of.
        # gcsfs sleeps random() + 2 ** (tries - 1) seconds between its six attempts; less than none is none.
        patch.setattr(gcsfs.retry, "random", SimpleNamespace(random=lambda: -64.0))
        yield


@pytest.fixture(scope="session", autouse=True)
def _dataflux(_credentials: None, pytestconfig: pytest.Config) -> Iterator[None]:
    """Makes the environment of gcs-torch-dataflux while the other clients are at work."""
    if pytestconfig.getoption("--nightly"):
        dataflux_process.begin_setup()
    yield
    dataflux_process.end()


@pytest.fixture(scope="session")
def clients_testbed() -> Iterator[RunningTestbed]:
    with launch_testbed() as running:
        yield running


@pytest.fixture(scope="session")
def clients_tls_testbed() -> Iterator[RunningTestbed]:
    with launch_testbed(tls=True) as running:
        yield running
