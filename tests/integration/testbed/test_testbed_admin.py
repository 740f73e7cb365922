"""The admin route's own port: who reaches it, by which name, and that no other port answers for it."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import pytest

from buckettestbed import RunningTestbed, launch_testbed


@pytest.fixture(scope="module", params=[False, True], ids=["http", "tls"])
def testbed(request: pytest.FixtureRequest) -> Iterator[RunningTestbed]:
    with launch_testbed(buckets=["data"], tls=request.param) as running:
        yield running


def ask(address: str, method: str, path: str, **headers: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(address, timeout=30)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_it_is_asked_over_plain_http_of_loopback(testbed: RunningTestbed) -> None:
    parts = urlsplit(testbed.admin)
    assert (parts.scheme, parts.hostname, parts.path) == ("http", "127.0.0.1", "")
    assert parts.port not in {urlsplit(testbed.s3_endpoint).port, urlsplit(testbed.gcs_endpoint).port}
    assert testbed.object_counts() == {"data": 0}
    for name in ("localhost", "LOCALHOST:1", f"127.0.0.1:{parts.port}"):
        assert ask(parts.netloc, "GET", "/counts", Host=name)[0] == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "rebound.example"},
        {"Host": "localhost.rebound.example:80"},
        {"Host": "169.254.0.1"},
        {"Host": ""},
        {"Origin": "https://page.example"},
        {"Origin": "null"},
    ],
    ids=str,
)
def test_a_page_in_a_browser_is_refused_and_changes_nothing(testbed: RunningTestbed, headers: dict[str, str]) -> None:
    testbed.set_faults([{"kind": "delay", "seconds": 0}])
    for method, path in (("GET", "/counts"), ("POST", "/reset"), ("PUT", "/faults")):
        status, body = ask(urlsplit(testbed.admin).netloc, method, path, **headers)
        assert (status, json.loads(body).keys()) == (403, {"error"})
    assert testbed.faults()["rules"] != []
    testbed.set_faults("none")


def test_connections_to_it_are_not_counted(testbed: RunningTestbed) -> None:
    testbed.reset_counts()
    assert testbed.counts()["connections"] == {"opened": 0, "open": 0}


def test_the_seconds_of_requests_are_summed_while_they_are_answered_and_no_longer() -> None:
    with launch_testbed(buckets=["data"], network={"first_byte_s": 0.2}) as running:
        netloc = urlsplit(running.s3_endpoint).netloc
        assert ask(netloc, "PUT", "/data/key")[0] == 200
        before_s = running.counts()["requests_s"]
        least_s = 0.19  # a request counts once it was read, a little after the network model's clock began
        assert before_s >= least_s
        # Three that a protocol answers by itself, two listings that the application does, all at once.
        paths = ["/data/key", "/data/key", "/data/key", "/data", "/data"]
        with ThreadPoolExecutor(len(paths)) as pool:
            assert {status for status, _ in pool.map(lambda path: ask(netloc, "GET", path), paths)} == {200}
        after_s = running.counts()["requests_s"]
        assert after_s - before_s >= len(paths) * least_s
        host, _, port = netloc.partition(":")
        with socket.create_connection((host, int(port)), 30) as gone:
            gone.sendall(b"GET /data/key HTTP/1.1\r\nHost: data\r\n\r\n")
            while running.counts()["requests"]["get_object"] < 4:
                pass
        while running.counts()["connections"]["open"]:
            pass
        ended_s = running.counts()["requests_s"]
        assert ended_s > after_s
        assert running.counts()["requests_s"] == ended_s


def test_the_ports_of_the_providers_answer_no_admin_request() -> None:
    with launch_testbed(buckets=["data"]) as running:
        assert ask(urlsplit(running.s3_endpoint).netloc, "GET", "/data")[0] == 200
        for endpoint in (running.s3_endpoint, running.gcs_endpoint):
            for method, path in (("GET", "/counts"), ("GET", "/_testbed/counts"), ("POST", "/_testbed/reset")):
                status, body = ask(urlsplit(endpoint).netloc, method, path)
                assert status >= 400
                assert b"list_objects_v1" not in body
        counts = running.counts()["requests"]  # Every one was a request of the provider's.
        assert (counts["list_objects_v1"], counts["get_object"]) == (3, 2)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has all of 127.0.0.0/8 without set-up")
def test_allow_remote_moves_the_providers_ports_and_not_the_admin_route() -> None:
    command = [sys.executable, "-m", "buckettestbed", "--host", "127.0.0.2", "--allow-remote", "--bucket", "data"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        announced = json.loads(process.stdout.readline())
        assert urlsplit(announced["s3_endpoint"]).hostname == "127.0.0.2"
        assert ask(urlsplit(announced["s3_endpoint"]).netloc, "GET", "/data")[0] == 200
        admin = urlsplit(announced["admin"])
        assert admin.hostname == "127.0.0.1"
        assert ask(admin.netloc, "GET", "/counts")[0] == 200
        with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.2", admin.port or 0), 30):
            pass
        process.terminate()
