"""Clients nobody here wrote do their work against the testbed; content is compared."""

from __future__ import annotations

import random
import socket
from collections.abc import Callable, Iterator
from typing import Any

import boto3
import botocore.exceptions
import pytest
from botocore.config import Config
from client_kit import BUCKET, CLIENTS, PART_BYTES, Boto3Client, Client, ObstoreClient, environment

from bucketbench.testbed import RunningTestbed, launch_testbed

LARGE = random.Random(1).randbytes(2 * PART_BYTES + 12345)


@pytest.fixture(scope="module")
def testbed() -> Iterator[RunningTestbed]:
    with (
        environment(AWS_ACCESS_KEY_ID="key", AWS_SECRET_ACCESS_KEY="secret"),
        launch_testbed(buckets=[BUCKET]) as running,
    ):
        yield running


@pytest.fixture(params=sorted(CLIENTS))
def client(request: pytest.FixtureRequest, testbed: RunningTestbed) -> Client:
    return CLIENTS[request.param](testbed)


def work(client: Client) -> None:
    """Saves, loads, reads a range, lists more than a page and uploads in parts."""
    small = random.Random(2).randbytes(100_000)
    folder = f"{client.name}/"
    client.save(folder + "small", small)
    assert client.load(folder + "small") == small
    assert client.load_range(folder + "small", 1000, 3000) == small[1000:3000]
    client.save(folder + "empty", b"")
    assert client.load(folder + "empty") == b""
    client.save_large(folder + "large", LARGE)
    assert client.load(folder + "large") == LARGE
    assert (
        client.load_range(folder + "large", PART_BYTES - 10, PART_BYTES + 10)
        == LARGE[PART_BYTES - 10 : PART_BYTES + 10]
    )
    assert sorted(client.list(folder)) == [
        (folder + "empty", 0),
        (folder + "large", len(LARGE)),
        (folder + "small", len(small)),
    ]


def test_each_client_saves_loads_lists_and_uploads(client: Client, testbed: RunningTestbed) -> None:
    testbed.reset_counts()
    work(client)
    counts = testbed.counts()
    assert set(counts["errors"]) <= {"404", "416"}, counts  # s3fs looks for folders; a range of an empty object is 416.
    assert counts["requests"]["upload_part"] >= 3
    assert counts["requests"]["complete_upload"] == counts["requests"]["create_upload"]
    assert testbed.open_uploads() == []


def test_each_client_lists_page_by_page(client: Client, testbed: RunningTestbed) -> None:
    writer = Boto3Client(testbed)
    names = [f"pages-{client.name}/{number:04}" for number in range(1105)]
    session = ObstoreClient(testbed)
    for name in names:
        session.save(name, b"x")
    testbed.reset_counts()
    assert sorted(client.list(f"pages-{client.name}/")) == [(name, 1) for name in names]
    assert testbed.counts()["requests"]["list_objects_v2"] >= 2
    for start in range(0, len(names), 1000):
        doomed = [{"Key": name} for name in names[start : start + 1000]]
        writer.s3.delete_objects(Bucket=BUCKET, Delete={"Objects": doomed, "Quiet": True})
    assert client.list(f"pages-{client.name}/") == []


def test_clients_read_what_others_wrote(testbed: RunningTestbed) -> None:
    clients = [make(testbed) for make in CLIENTS.values()]
    for writer in clients:
        writer.save(f"shared/{writer.name}", writer.name.encode())
        assert [reader.load(f"shared/{writer.name}") for reader in clients] == [writer.name.encode()] * len(clients)


@pytest.mark.parametrize("name", ["boto3", "obstore"])
def test_over_tls_with_the_certificate_verified(name: str) -> None:
    with launch_testbed(buckets=[BUCKET], tls=True) as secure:
        assert secure.s3_endpoint.startswith("https://")
        assert secure.counts()["requests"] == {}
        with environment(SSL_CERT_FILE=str(secure.ca_certificate)):
            work(CLIENTS[name](secure))
        stranger = boto3.client(
            "s3",
            endpoint_url=secure.s3_endpoint,
            region_name="us-east-1",
            aws_access_key_id="key",
            aws_secret_access_key="secret",
            config=Config(retries={"total_max_attempts": 1}),
        )
        with pytest.raises(botocore.exceptions.SSLError):
            stranger.list_buckets()


def resolving_localhost(original: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a resolver that knows BUCKET.localhost, which not every resolver does."""

    def getaddrinfo(host: Any, *args: Any, **options: Any) -> Any:
        return original("127.0.0.1" if str(host).endswith(".localhost") else host, *args, **options)

    return getaddrinfo


def test_virtual_host_addressing(testbed: RunningTestbed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", resolving_localhost(socket.getaddrinfo))
    local = RunningTestbed(
        s3_endpoint=testbed.s3_endpoint.replace("127.0.0.1", "localhost"),
        gcs_endpoint=testbed.gcs_endpoint,
        admin=testbed.admin,
        ca_certificate=None,
        pid=0,
    )
    client = Boto3Client(local, addressing="virtual")
    assert client.s3.generate_presigned_url("get_object", Params={"Bucket": BUCKET, "Key": "k"}).startswith(
        f"http://{BUCKET}.localhost:"
    )
    client.save("virtual//key", b"abc")
    assert client.load("virtual//key") == b"abc"
    assert client.list("virtual/") == [("virtual//key", 3)]
