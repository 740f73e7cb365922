"""Faults and the log as a socket sees them: RST or FIN, with and without TLS, by both ways of answering a GET."""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from buckettestbed import RunningTestbed, TestbedError, launch_testbed

BODY = bytes(range(256)) * 4000  # More than a socket's buffers hold is not needed: what is cut was received before.
PLAIN, ORDINARY = "", "X-Unknown: makes a request not plain\r\n"


@pytest.fixture(scope="module", params=[False, True], ids=["http", "https"])
def served(request: pytest.FixtureRequest) -> Iterator[RunningTestbed]:
    with launch_testbed(buckets=["data"], tls=request.param, log_requests=1000) as running:
        with connected(running) as raw:
            raw.sendall(b"PUT /data/k HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY)
            assert raw.recv(15) == b"HTTP/1.1 200 OK"
        yield running


def connected(testbed: RunningTestbed) -> socket.socket:
    """Returns a connection, over TLS where the testbed serves it."""
    address = urlsplit(testbed.s3_endpoint)
    raw = socket.create_connection((address.hostname, address.port), timeout=30)
    if testbed.ca_certificate is None:
        return raw
    context = ssl.create_default_context(cafile=str(testbed.ca_certificate))
    return context.wrap_socket(raw, server_hostname=address.hostname)


def struck(testbed: RunningTestbed, extra: str) -> tuple[bytes, OSError | None]:
    """Returns all bytes that come for a GET of the object, and how the TCP connection ended: by FIN is None."""
    ask = f"GET /data/k HTTP/1.1\r\nHost: h\r\n{extra}\r\n".encode()
    address = urlsplit(testbed.s3_endpoint)
    got = bytearray()
    with socket.create_connection((address.hostname, address.port), timeout=30) as raw:
        take: Callable[[bytes], bytes] = bytes
        if testbed.ca_certificate is None:
            raw.sendall(ask)
        else:
            take = _encrypted(raw, address.hostname, testbed, ask)
        try:
            while piece := raw.recv(65536):
                got += take(piece)
        except OSError as error:
            return bytes(got), error
        return bytes(got), None


def _encrypted(raw: socket.socket, host: str | None, testbed: RunningTestbed, ask: bytes) -> Callable[[bytes], bytes]:
    """Sends a request over TLS; returns what decrypts each piece of the answer. An SSLSocket would tell a reset as it
    tells an end without TLS's own notice."""
    context = ssl.create_default_context(cafile=str(testbed.ca_certificate))
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    secure = context.wrap_bio(incoming, outgoing, server_hostname=host)
    while True:
        try:
            secure.do_handshake()
            break
        except ssl.SSLWantReadError:
            raw.sendall(outgoing.read())
            incoming.write(raw.recv(65536))
    secure.write(ask)
    raw.sendall(outgoing.read())

    def take(piece: bytes) -> bytes:
        incoming.write(piece)
        got = bytearray()
        with contextlib.suppress(ssl.SSLWantReadError):
            while more := secure.read(65536):
                got += more
        return bytes(got)

    return take


@pytest.mark.parametrize("extra", [PLAIN, ORDINARY], ids=["plain", "ordinary"])
@pytest.mark.parametrize(
    ("rule", "arrives"),
    [
        ({"kind": "reset"}, None),
        ({"kind": "reset", "after_bytes": 0}, 0),
        ({"kind": "reset", "after_bytes": 700_001}, 700_001),
        ({"kind": "truncate", "after_bytes": 700_001}, 700_001),
        ({"kind": "truncate", "after_bytes": 10**12}, len(BODY) - 1),
    ],
)
def test_exactly_what_the_rule_lets_through_arrives_and_then_the_end(
    served: RunningTestbed, rule: dict[str, Any], arrives: int | None, extra: str
) -> None:
    served.set_faults([rule])
    got, error = struck(served, extra)
    head, _, body = got.partition(b"\r\n\r\n")
    assert body == BODY[: arrives or 0]
    assert bool(head) == (arrives is not None)
    if head:
        assert f"content-length: {len(BODY)}".encode() in head
    assert isinstance(error, ConnectionResetError) == (rule["kind"] == "reset"), error


def test_a_request_is_drawn_for_once_whichever_way_it_is_answered(served: RunningTestbed) -> None:
    served.set_faults([{"kind": "error", "status": 503, "every": 3}])
    served.reset_counts()
    statuses = []
    with connected(served) as stream:
        for number in range(12):
            stream.sendall(f"GET /data/k HTTP/1.1\r\nHost: h\r\n{PLAIN if number % 2 else ORDINARY}\r\n".encode())
            answer = http.client.HTTPResponse(stream)
            answer.begin()
            statuses.append(answer.status)
            answer.read()
    assert statuses == [200, 200, 503] * 4
    (rule,) = served.faults()["rules"]
    assert (rule["matched"], rule["injected"]) == (12, 4)
    counts = served.counts()
    assert (counts["requests"], counts["faults"], counts["errors"]) == ({"get_object": 12}, {"error": 4}, {"503": 4})


def test_both_ways_of_answering_write_the_same_in_the_log(served: RunningTestbed) -> None:
    served.set_faults("none")
    served.reset_counts()
    for asked in ("", "Range: bytes=10-19\r\n", "Range: bytes=-5\r\n", "Range: bytes=1024000-\r\n"):
        with connected(served) as stream:
            for extra in (PLAIN, ORDINARY):
                stream.sendall(f"GET /data/k HTTP/1.1\r\nHost: h\r\n{asked}{extra}\r\n".encode())
                answer = http.client.HTTPResponse(stream)
                answer.begin()
                answer.read()
    found = served.requests()
    assert [(one.status, one.range_start, one.range_stop, one.bytes_out) for one in found[::2]] == [
        (200, None, None, len(BODY)),
        (206, 10, 20, 10),
        (206, -5, None, 5),
        (416, 1024000, None, found[6].bytes_out),
    ]
    times = {"number", "arrived_s", "first_byte_s", "end_s"}
    for plain, ordinary in zip(found[::2], found[1::2], strict=True):
        shown = [{name: getattr(one, name) for name in one.__slots__ if name not in times} for one in (plain, ordinary)]
        if plain.status == 416:  # The document has the request's own number in it.
            shown[1]["bytes_out"] = shown[0]["bytes_out"]
        assert shown[0] == shown[1]
        for one in (plain, ordinary):
            assert 0 <= (one.first_byte_s or -1) <= one.end_s
    assert len({one.connection for one in found}) == 4
    assert served.requests(after=found[-2].number) == [found[-1]]
    assert served.snapshot()["log"]["last"] == len(found)


@pytest.mark.parametrize("extra", [PLAIN, ORDINARY], ids=["plain", "ordinary"])
def test_a_client_that_leaves_early_is_logged_as_gone(served: RunningTestbed, extra: str) -> None:
    served.set_network({"connection_bytes_per_s": 4 << 20})  # So that the body is still on its way.
    served.set_faults("none")
    served.reset_counts()
    with connected(served) as stream:
        stream.sendall(f"GET /data/k HTTP/1.1\r\nHost: h\r\n{extra}\r\n".encode())
        assert stream.recv(1000)
    found: list[Any] = []
    while not found:  # The testbed learns of it when its next write fails; pytest's limit ends a loop without end.
        found = served.requests()
    served.set_network({})
    (one,) = found
    assert (one.outcome, one.status) == ("gone", 200)
    assert one.bytes_out < len(BODY)
    assert served.counts()["disconnected"] == 1


def test_faults_can_be_set_at_the_start_and_a_log_that_drops_says_so() -> None:
    with launch_testbed(buckets=["data"], faults="[{kind: error, status: 500, nth: 2}]", log_requests=3) as running:
        connection = http.client.HTTPConnection(urlsplit(running.s3_endpoint).netloc, timeout=30)
        statuses = []
        for _ in range(5):
            connection.request("GET", "/data")
            answer = connection.getresponse()
            statuses.append(answer.status)
            answer.read()
        connection.close()
        assert statuses == [200, 500, 200, 200, 200]
        assert [found.number for found in running.requests(after=2)] == [3, 4, 5]
        with pytest.raises(TestbedError, match="dropped 2 requests after number 0"):
            running.requests()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--faults", "nothing"], "--faults: no faults preset is named 'nothing'; there are corruption, errors_1pct"),
        (["--faults", "[{kind: reset, nth: 0}]"], "--faults: the faults given in line: rule 1: nth is 0"),
        (["--log-requests", "-1"], "--log-requests -1 is not a number of requests"),
    ],
)
def test_a_mistake_on_the_command_line_is_told_in_one_line(options: list[str], words: str) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "buckettestbed", *options], capture_output=True, text=True, timeout=60, check=False
    )
    assert run.returncode == 2
    assert words in run.stderr
    assert run.stderr.count("\n") == 1
