from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from conformance_subjects import Subject, subject

from bucketbench.testbed.launch import launch_testbed

KINDS = ("memory", "file", "s3-testbed", "s3-moto")


@pytest.fixture(scope="session", autouse=True)
def _credentials() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "AKIACONFORMANCE")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "conformance-secret-key")
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        yield


@pytest.fixture(scope="session")
def testbed_endpoint() -> Iterator[str]:
    with launch_testbed(buckets=["data"]) as testbed:
        yield testbed.s3_endpoint


@pytest.fixture(scope="session")
def moto_endpoint() -> Iterator[str]:
    """A server nobody here wrote."""
    moto_server = pytest.importorskip("moto.server")
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = moto_server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(params=KINDS)
def made(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Subject]:
    endpoint = None
    if request.param.startswith("s3-"):
        endpoint = request.getfixturevalue(f"{request.param.removeprefix('s3-')}_endpoint")
    with subject(request.param, tmp_path, endpoint) as one:
        yield one
