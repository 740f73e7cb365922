"""What a client can have the testbed hold and wait for: long heads, slow ones, silence, as a socket meets it."""

from __future__ import annotations

import json
import random
import select
import socket
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from buckettestbed import RunningTestbed, launch_testbed
from buckettestbed.command import main
from buckettestbed.serving.bounded import HEAD_LIMIT_BYTES

IDLE_S = 1.5
BODY = random.Random(7).randbytes(1 << 20)


@pytest.fixture(scope="module")
def testbed() -> Iterator[RunningTestbed]:
    with launch_testbed(buckets=["data"], idle_timeout_s=IDLE_S) as running:
        yield running


def connect(endpoint: str) -> socket.socket:
    address = urlsplit(endpoint)
    return socket.create_connection((address.hostname, address.port), timeout=60)


def rest_of(connection: socket.socket) -> bytes:
    """Returns what comes until the other side ends the connection."""
    got = bytearray()
    try:
        while piece := connection.recv(65536):
            got += piece
    except ConnectionError:  # What it did not read it answers with a reset.
        pass
    return bytes(got)


def answer_to(connection: socket.socket, request: bytes) -> tuple[int, bytes]:
    """Sends a request and returns the status and the body of its answer; the connection stays open."""
    connection.sendall(request)
    got = bytearray()
    while b"\r\n\r\n" not in got:
        got += connection.recv(65536)
    head, _, body = bytes(got).partition(b"\r\n\r\n")
    length = next(
        int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")
    )
    while len(body) < length:
        body += connection.recv(65536)
    return int(head[9:12]), body


def put(key: str, body: bytes, *headers: str) -> bytes:
    lines = [f"PUT /data/{key} HTTP/1.1", "Host: h", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


GET = b"GET /data/%s HTTP/1.1\r\nHost: h\r\n%s\r\n"


def test_a_client_that_sends_no_more_is_left(testbed: RunningTestbed) -> None:
    silent = {
        "nothing": b"",
        "half a line": b"GET /da",
        "half a head": b"GET /data/k HTTP/1.1\r\nHost: h\r\n",
        "half a body": put("half", BODY)[:5000],
        "no trailer": b"PUT /data/half HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nA: ",
        "half a second request": put("whole", b"x") + b"GET /data/k HT",
    }
    with connect(testbed.s3_endpoint) as dripping:
        waiting = {name: connect(testbed.s3_endpoint) for name in silent}
        for name, sent in silent.items():
            waiting[name].sendall(sent)
        dripping.sendall(b"GET /data/k HTTP/1.1\r\n")
        while not select.select([dripping], [], [], 0.05)[0]:  # A header that never ends.
            dripping.sendall(b"X")
        answers = {name: rest_of(connection) for name, connection in waiting.items()}
        assert rest_of(dripping) == b""
    for connection in waiting.values():
        connection.close()
    assert answers.pop("half a second request").startswith(b"HTTP/1.1 200")
    assert set(answers.values()) == {b""}
    with connect(testbed.s3_endpoint) as connection:
        assert answer_to(connection, GET % (b"half", b""))[0] == 404
    assert testbed.counts()["connections"]["open"] == 0


def test_a_client_that_is_only_slow_is_served(testbed: RunningTestbed) -> None:
    with connect(testbed.s3_endpoint) as connection:
        sent = put("slow", b"0123456789")
        connection.sendall(sent[:-10])
        for byte in sent[-10:]:
            time.sleep(IDLE_S / 7)
            connection.sendall(bytes([byte]))
        assert answer_to(connection, b"")[0] == 200
        assert answer_to(connection, GET % (b"slow", b"")) == (200, b"0123456789")


def test_a_server_that_is_slow_does_not_give_up_on_its_client(testbed: RunningTestbed) -> None:
    testbed.set_faults([{"kind": "delay", "seconds": IDLE_S * 1.5, "times": 2}])
    with connect(testbed.s3_endpoint) as connection:
        assert answer_to(connection, put("late", BODY))[0] == 200
        assert answer_to(connection, GET % (b"late", b"")) == (200, BODY)
    testbed.set_faults("none")


LONG = b"X-Long: %s\r\n" % (b"x" * (HEAD_LIMIT_BYTES + 1))
MANY = b"".join(b"X-%d: %s\r\n" % (number, b"x" * 90) for number in range(800))


@pytest.mark.parametrize("header", [LONG, MANY, LONG[:-2] * 4], ids=["one", "many", "endless"])
def test_a_head_that_is_too_long_is_refused_and_the_connection_ends(testbed: RunningTestbed, header: bytes) -> None:
    for endpoint, path, words in [
        (testbed.s3_endpoint, b"/data/k", b"<Code>RequestHeaderSectionTooLarge</Code>"),
        (testbed.gcs_endpoint, b"/data/k", b"<Details>"),
        (testbed.gcs_endpoint, b"/storage/v1/b/data", b'"reason": "RequestHeaderSectionTooLarge"'),
    ]:
        with connect(endpoint) as connection:
            connection.sendall(b"GET %s HTTP/1.1\r\nHost: h\r\n%s" % (path, header) + b"\r\n")
            got = rest_of(connection)
            assert got.startswith(b"HTTP/1.1 400"), got[:200]
            assert words in got
            assert b"connection: close" in got


def test_a_line_that_never_ends_is_refused(testbed: RunningTestbed) -> None:
    with connect(testbed.s3_endpoint) as connection:
        connection.sendall(b"GET /data/" + b"k" * (3 * HEAD_LIMIT_BYTES))
        assert rest_of(connection).startswith(b"HTTP/1.1 400")
    with connect(testbed.gcs_endpoint) as connection:  # Nor is a trailer, which comes when the head is long over.
        connection.sendall(b"PUT /data/t HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n")
        try:
            for _ in range(100):
                connection.sendall(b"A: %s\r\n" % (b"x" * 4096))
            ended = rest_of(connection)
        except ConnectionError:
            ended = b""
        assert not ended.startswith(b"HTTP/1.1 200")


def test_long_bodies_and_heads_of_a_sensible_length_are_served(testbed: RunningTestbed) -> None:
    fits = b"X-Long: %s\r\n" % (b"x" * (HEAD_LIMIT_BYTES - 2000))
    with connect(testbed.s3_endpoint) as connection:
        assert answer_to(connection, put("k", BODY))[0] == 200
        assert answer_to(connection, GET % (b"k", fits)) == (200, BODY)
        # The next head in one piece with the end of a body.
        connection.sendall(put("k", BODY) + GET % (b"k", fits) + GET % (b"none", b"Connection: close\r\n"))
        got = rest_of(connection)
    assert got.count(b"HTTP/1.1 200 OK") == 2
    assert b"HTTP/1.1 404" in got


def test_a_header_that_comes_twice_is_one_list(testbed: RunningTestbed) -> None:
    wrong, right = "x-goog-hash: crc32c=AAAAAA==", "x-goog-hash: crc32c=Nks/tw=="  # Of no bytes, and of "abc".
    for hashes, status in [([wrong, right], 400), ([right, wrong], 400), ([right, right], 200)]:
        with connect(testbed.gcs_endpoint) as connection:
            assert answer_to(connection, put("twice", b"abc", *hashes))[0] == status


def test_the_admin_route_has_the_same_bounds(testbed: RunningTestbed) -> None:
    with connect(testbed.admin) as connection:
        connection.sendall(b"GET /counts HTTP/1.1\r\n" + LONG)
        assert rest_of(connection).startswith(b"HTTP/1.1 400")
    with connect(testbed.admin) as connection:
        assert rest_of(connection) == b""
    with connect(testbed.admin) as connection:
        status, body = answer_to(connection, b"GET /counts HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert (status, "requests" in json.loads(body)) == (200, True)


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf", "1e9", "soon"])
def test_a_time_that_is_none_is_refused_at_the_start(seconds: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--idle-timeout-s", seconds]) == 2
    assert "--idle-timeout-s" in capsys.readouterr().err
