"""The small data set on a testbed, in the clear and over TLS."""

from __future__ import annotations

import os
from collections.abc import Iterator

import fsspec.config
import pytest
from fsspec.registry import _registry as fsspec_classes
from served_clients import Served, serving

GCSFS_SWITCH = "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT"


@pytest.fixture(scope="session", autouse=True)
def credentials() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        # Credentials and authorities of whoever runs this are none of the tests' business.
        told = ("AWS_", "GOOGLE_", "CLOUDSDK_", "STORAGE_EMULATOR_", "SSL_CERT_", "REQUESTS_CA_", "CURL_CA_")
        for name in [name for name in os.environ if name.startswith(told)]:
            patch.delenv(name)
        patch.setenv("CLOUDSDK_CONFIG", os.devnull)
        patch.setenv("NO_GCE_CHECK", "true")
        patch.setenv("AWS_ACCESS_KEY_ID", "testbed")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "testbed")
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        patch.setenv("AWS_CONFIG_FILE", os.devnull)
        patch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
        yield


@pytest.fixture(autouse=True)
def fsspec_as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a client tells fsspec is for the process that is measured, and not for the tests that follow here."""
    settings, known = dict(fsspec.config.conf), dict(fsspec_classes)
    monkeypatch.setenv(GCSFS_SWITCH, os.environ.get(GCSFS_SWITCH, "true"))  # so that it is as before afterwards
    yield
    for now, before in ((fsspec.config.conf, settings), (fsspec_classes, known)):
        now.clear()
        now.update(before)


@pytest.fixture(scope="session")
def served(credentials: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tls=False, directory=tmp_path_factory.mktemp("served")) as served:
        yield served


@pytest.fixture(scope="session")
def served_tls(credentials: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tls=True, directory=tmp_path_factory.mktemp("served")) as served:
        yield served
