"""The server itself: raw HTTP, both ways of answering a GET, the network model, kept files, the end."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from client_kit import BUCKET, Boto3Client

from bucketbench.cli import main as bucketbench_main
from buckettestbed import DirectoryInUseError, ForeignDirectoryError, RunningTestbed, TestbedError, launch_testbed
from buckettestbed.command import main as buckettestbed_main
from torchbucket import StoreConfig, open_store

BODY = random.Random(3).randbytes(300_000)
REGIONAL = {"first_byte_s": 0.02, "connection_bytes_per_s": 100 << 20, "total_bytes_per_s": 800 << 20}
CHANGING = {"date", "x-amz-request-id"}


@pytest.fixture(scope="module")
def testbed() -> Iterator[RunningTestbed]:
    with launch_testbed(buckets=[BUCKET]) as running:
        yield running


@pytest.fixture
def connection(testbed: RunningTestbed) -> Iterator[http.client.HTTPConnection]:
    testbed.set_network({})
    opened = http.client.HTTPConnection(urlsplit(testbed.s3_endpoint).netloc, timeout=30)
    yield opened
    opened.close()


def ask(
    connection: http.client.HTTPConnection, method: str, path: str, body: bytes | None = None, **headers: str
) -> tuple[int, dict[str, str], bytes]:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, body, sent)
    answer = connection.getresponse()
    return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()


@pytest.mark.parametrize("network", [{}, REGIONAL])
@pytest.mark.parametrize("size", [0, 1, 300_000])
@pytest.mark.parametrize(
    "asked", [None, "bytes=0-0", "bytes=5-", "bytes=-7", "bytes=100-299999", "bytes=9-3", "bytes=999999-"]
)
def test_both_ways_of_answering_a_get_give_the_same(
    testbed: RunningTestbed,
    connection: http.client.HTTPConnection,
    network: dict[str, object],
    size: int,
    asked: str | None,
) -> None:
    path = f"/{BUCKET}/same//{size}%20%2B"
    assert ask(connection, "PUT", path, BODY[:size], Content_Type="text/x", x_amz_meta_a="b")[0] == 200
    testbed.set_network(network)
    headers = {} if asked is None else {"Range": asked}
    plain = ask(connection, "GET", path, **headers)
    ordinary = ask(connection, "GET", path, X_Unknown="makes a request not plain", **headers)
    assert plain[0] == ordinary[0]
    texts = [re.sub(b"<RequestId>.*</RequestId>", b"", answer[2]) for answer in (plain, ordinary)]
    assert texts[0] == texts[1]
    known = [{name: value for name, value in answer[1].items() if name not in CHANGING} for answer in (plain, ordinary)]
    assert known[0] == known[1]
    assert plain[1].keys() == ordinary[1].keys()


SIGNED = "?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=a%2Fb&X-Amz-Date=1&X-Amz-Expires=9&X-Amz-Signature=0f"


@pytest.mark.parametrize("query", ["", "?x-id=GetObject", SIGNED, "?AWSAccessKeyId=a&Signature=b%3D&Expires=1"])
@pytest.mark.parametrize(
    "headers",
    [
        {"x_amz_checksum_mode": "ENABLED"},
        {"x_amz_checksum_mode": "ENABLED", "Range": "bytes=1-3"},
        {"If_Match": '"5d41402abc4b2a76b9719d911017c592"'},
        {"If_Match": '"00000000000000000000000000000000"'},
    ],
)
def test_what_clients_add_to_a_get_is_answered_alike_both_ways(
    connection: http.client.HTTPConnection, query: str, headers: dict[str, str]
) -> None:
    path = f"/{BUCKET}/hello"
    assert ask(connection, "PUT", path, b"hello", x_amz_checksum_crc32="NhCmhg==")[0] == 200
    plain = ask(connection, "GET", path + query, **headers)
    ordinary = ask(connection, "GET", path + query, X_Unknown="makes a request not plain", **headers)
    assert plain[0] == ordinary[0] == (412 if "00000" in headers.get("If_Match", "") else plain[0])
    assert plain[1].keys() == ordinary[1].keys()
    assert ("x-amz-checksum-crc32" in plain[1]) == (headers == {"x_amz_checksum_mode": "ENABLED"})


@pytest.mark.parametrize(
    ("tls", "kept"),
    [(True, False), (False, True), *(pytest.param(one, one, marks=pytest.mark.nightly) for one in (False, True))],
)
def test_large_objects_arrive_whole_however_slowly_they_are_read(tls: bool, kept: bool, tmp_path: Path) -> None:
    body = random.Random(4).randbytes(24 << 20)
    with launch_testbed(buckets=[BUCKET], tls=tls, directory=tmp_path if kept else None) as running:
        client = Boto3Client(running)
        client.save_large("large", body)
        for extra in ({}, {"IfMatch": "*"}):  # The second is not a plain GET.
            stream = client.s3.get_object(Bucket=BUCKET, Key="large", **extra)["Body"]
            found = [stream.read(1 << 20)]
            time.sleep(0.3)  # Every buffer between the two is full by now.
            assert b"".join([*found, stream.read()]) == body


def test_a_plain_get_sees_every_change(connection: http.client.HTTPConnection) -> None:
    path = f"/{BUCKET}/changing"
    for body in (b"first", b"second, longer"):
        ask(connection, "PUT", path, body)
        assert ask(connection, "GET", path)[2] == body
    assert ask(connection, "DELETE", path)[0] == 204
    assert ask(connection, "GET", path)[0] == 404
    assert ask(connection, "GET", f"/{BUCKET}", Host="x")[0] == 200


@pytest.mark.parametrize("network", [{}, REGIONAL])
def test_pipelined_requests_are_answered_in_order(
    testbed: RunningTestbed, connection: http.client.HTTPConnection, network: dict[str, object]
) -> None:
    for name in ("a", "b"):
        ask(connection, "PUT", f"/{BUCKET}/{name}", name.encode() * 200_000)
    testbed.set_network(network)
    host, port = urlsplit(testbed.s3_endpoint).hostname, urlsplit(testbed.s3_endpoint).port
    with socket.create_connection((host, port), timeout=30) as raw:
        names = ["a", "b", "b", "a"] * 3
        extra = ["", "X-Unknown: 1\r\n", ""] * 4
        requests = [
            f"GET /{BUCKET}/{name} HTTP/1.1\r\nHost: h\r\n{more}\r\n" for name, more in zip(names, extra, strict=True)
        ]
        raw.sendall("".join(requests).encode())
        stream = raw.makefile("rb")
        for name in names:
            assert stream.readline() == b"HTTP/1.1 200 OK\r\n"
            headers = http.client.parse_headers(stream)
            assert stream.read(int(headers["Content-Length"])) == name.encode() * 200_000


def test_a_client_that_leaves_in_the_middle_disturbs_no_one(
    testbed: RunningTestbed, connection: http.client.HTTPConnection
) -> None:
    ask(connection, "PUT", f"/{BUCKET}/long", BODY * 20)
    testbed.set_network({"connection_bytes_per_s": 1 << 20, "total_bytes_per_s": 2 << 20})
    testbed.reset_counts()
    address = (urlsplit(testbed.s3_endpoint).hostname, urlsplit(testbed.s3_endpoint).port)
    for more in ("", "X-Unknown: 1\r\n"):
        with socket.create_connection(address, timeout=30) as raw:
            raw.sendall(f"GET /{BUCKET}/long HTTP/1.1\r\nHost: h\r\n{more}\r\n".encode())
            assert raw.recv(10) == b"HTTP/1.1 2"
    with socket.create_connection(address, timeout=30) as raw:
        raw.sendall(f"PUT /{BUCKET}/cut HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\nonly so much".encode())
    limit_s = time.monotonic() + 20
    while testbed.counts()["connections"]["open"] > 1 and time.monotonic() < limit_s:
        time.sleep(0.02)
    testbed.set_network({})
    assert ask(connection, "HEAD", f"/{BUCKET}/cut")[0] == 404
    assert ask(connection, "GET", f"/{BUCKET}/long")[2] == BODY * 20
    assert testbed.counts()["disconnected"] >= 2


def test_an_upload_refused_early_leaves_the_connection_usable(connection: http.client.HTTPConnection) -> None:
    for size in (1000, 8 << 20):
        assert ask(connection, "PUT", "/none/key", b"x" * size)[0] == 404
        assert ask(connection, "GET", f"/{BUCKET}?list-type=2")[0] == 200


def test_a_client_that_waits_for_100_continue(testbed: RunningTestbed) -> None:
    address = (urlsplit(testbed.s3_endpoint).hostname, urlsplit(testbed.s3_endpoint).port)
    for bucket, wanted in ((BUCKET, b"HTTP/1.1 100 Continue\r\n"), ("none", b"HTTP/1.1 404 Not Found\r\n")):
        with socket.create_connection(address, timeout=30) as raw:
            raw.sendall(
                f"PUT /{bucket}/k HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n".encode()
            )
            stream = raw.makefile("rb")
            assert stream.readline() == wanted


def test_latency_and_bandwidth_are_at_least_what_was_asked(
    testbed: RunningTestbed, connection: http.client.HTTPConnection
) -> None:
    path, size = f"/{BUCKET}/shaped", 1 << 20
    ask(connection, "PUT", path, bytes(size))
    testbed.set_network({"first_byte_s": 0.05, "connection_bytes_per_s": 10 << 20})
    for method, body, wanted_s in (("HEAD", None, 0.05), ("GET", None, 0.15), ("PUT", bytes(size), 0.15)):
        start_s = time.monotonic()
        assert ask(connection, method, path, body)[0] == 200
        assert time.monotonic() - start_s >= wanted_s
    start_s = time.monotonic()
    assert ask(connection, "GET", path, X_Unknown="1")[0] == 200
    assert time.monotonic() - start_s >= 0.15


def test_connections_share_the_total(testbed: RunningTestbed, connection: http.client.HTTPConnection) -> None:
    ask(connection, "PUT", f"/{BUCKET}/shared", bytes(1 << 20))
    testbed.set_network({"total_bytes_per_s": 20 << 20})

    def read() -> None:
        own = http.client.HTTPConnection(urlsplit(testbed.s3_endpoint).netloc, timeout=30)
        ask(own, "GET", f"/{BUCKET}/shared")
        own.close()

    start_s = time.monotonic()
    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert time.monotonic() - start_s >= 8 / 20


def test_the_model_can_be_read_back_and_is_checked(testbed: RunningTestbed) -> None:
    testbed.set_network("regional")
    assert testbed.network()["first_byte_s"] == 0.02
    with pytest.raises(TestbedError, match="first_byte_s is -1"):
        testbed.set_network({"first_byte_s": -1})
    assert testbed.network()["first_byte_s"] == 0.02
    testbed.set_network({})


def test_a_directory_outlasts_its_testbed(tmp_path: Path) -> None:
    keys = ["a//b", "../../escape", "/absolute", "d/", "x" * 1024, "é\U0001f600", "CaSe", "case"]
    with launch_testbed(buckets=[BUCKET], directory=tmp_path / "kept") as first:
        client = Boto3Client(first)
        for key in keys:
            client.s3.put_object(Bucket=BUCKET, Key=key, Body=key.encode(), Metadata={"a": "b"}, ContentType="t/x")
        client.save_large("large", BODY * 30)
        upload = client.s3.create_multipart_upload(Bucket=BUCKET, Key="open")["UploadId"]
        client.s3.upload_part(Bucket=BUCKET, Key="open", UploadId=upload, PartNumber=1, Body=b"part")
        etags = {found["Key"]: found["ETag"] for found in client.s3.list_objects_v2(Bucket=BUCKET)["Contents"]}
        assert client.load("large") == BODY * 30
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept"]
    assert sorted(path.name for path in (tmp_path / "kept").iterdir()) == [".buckettestbed", BUCKET]
    with launch_testbed(directory=tmp_path / "kept") as second:
        with (
            pytest.raises(DirectoryInUseError, match="another testbed serves"),
            launch_testbed(directory=tmp_path / "kept"),
        ):
            pass
        client = Boto3Client(second)
        listed = client.s3.list_objects_v2(Bucket=BUCKET)["Contents"]
        assert {found["Key"]: found["ETag"] for found in listed} == etags
        assert [found["Key"] for found in listed] == sorted([*keys, "large"])
        for key in keys:
            found = client.s3.get_object(Bucket=BUCKET, Key=key)
            assert (found["Body"].read(), found["Metadata"], found["ContentType"]) == (key.encode(), {"a": "b"}, "t/x")
        assert client.load("large") == BODY * 30
    (tmp_path / "kept" / ".buckettestbed").write_text('{"format": "buckettestbed directory", "version": 1}')
    with pytest.raises(ForeignDirectoryError, match='"version": 1'), launch_testbed(directory=tmp_path / "kept"):
        pass


def test_clients_write_and_read_objects_of_opaque_etags() -> None:
    with launch_testbed(buckets=[BUCKET], opaque_etags=True) as running:
        client = Boto3Client(running)
        client.save("small", BODY)
        client.save_large("large", BODY * 30)
        config = StoreConfig(endpoint=running.s3_endpoint, region="us-east-1", anonymous=True, path_style=True)
        with contextlib.closing(open_store(f"s3://{BUCKET}", config=config)) as store:
            store.write("ours", BODY)
            with store.open_writer("ours-large") as writer:
                writer.write(BODY * 30)
            for key, body in (("small", BODY), ("large", BODY * 30), ("ours", BODY), ("ours-large", BODY * 30)):
                assert client.load(key) == body
                assert store.read(key).data == body


def test_an_object_replaced_while_it_is_sent_is_sent_as_it_was(tmp_path: Path) -> None:
    with launch_testbed(buckets=[BUCKET], directory=tmp_path) as running:
        client = Boto3Client(running)
        client.save("key", BODY * 10)
        running.set_network({"first_byte_s": 0.2, "connection_bytes_per_s": 20 << 20})
        found: list[bytes] = []
        reader = threading.Thread(target=lambda: found.append(client.load("key")))
        reader.start()
        while running.counts()["requests"].get("get_object", 0) == 0:
            time.sleep(0.01)
        running.set_network({})
        client.save("key", b"replaced")
        reader.join()
        assert found == [BODY * 10]
        assert client.load("key") == b"replaced"


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "buckettestbed", *arguments]


def test_the_command_prints_one_line_and_ends_cleanly_with_open_connections() -> None:
    for tls in ([], ["--tls"]):
        process = subprocess.Popen(command("--bucket", BUCKET, *tls), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert process.stdout is not None
        announced = json.loads(process.stdout.readline())
        assert announced["pid"] == process.pid
        assert (announced["ca_certificate"] is None) is not tls or tls
        parts = urlsplit(announced["s3_endpoint"])
        assert parts.hostname == "127.0.0.1"
        with socket.create_connection((parts.hostname, parts.port), timeout=30):
            process.terminate()
            rest, errors = process.communicate(timeout=30)
        assert (process.returncode, rest, errors) == (0, b"", b"")
        if tls:
            assert not Path(announced["ca_certificate"]).exists()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--bucket", "No_Name"], "'No_Name' is not a bucket name"),
        (["--network", "nowhere"], "no network preset is named 'nowhere'; there are"),
        (["--network", "{first_byte_s: -1}"], "first_byte_s is -1"),
        (["--host", "0.0.0.0"], "add --allow-remote"),
        (["--host", "no.such.host.invalid"], "is no address of this machine"),
        (["--port", "70000"], "--port 70000"),
        (["--directory", "/proc/none"], "--directory /proc/none: cannot use /proc/none"),
        (["--nonsense"], "unrecognized arguments: --nonsense"),
    ],
)
def test_a_mistake_on_the_command_line_is_told_in_one_line(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status = buckettestbed_main(arguments)
    said = capsys.readouterr()
    assert (status, said.out) == (2, "")
    assert told in said.err
    assert said.err.count("\n") == 1


def test_the_module_and_the_harness_have_the_same_command(capsys: pytest.CaptureFixture[str]) -> None:
    mistake = ["--port", "70000"]
    told = [
        (main(arguments), *capsys.readouterr())
        for main, arguments in ((bucketbench_main, ["testbed", *mistake]), (buckettestbed_main, mistake))
    ]
    done = subprocess.run(command(*mistake), capture_output=True, text=True, timeout=60, check=False)
    assert told == [(done.returncode, done.stdout, done.stderr)] * 2
    assert done.returncode == 2


def test_it_ends_quietly_where_nobody_reads_where_it_serves() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(command(), stdout=writer, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (
        1,
        "buckettestbed: ended, as nobody reads where it serves: standard output: Broken pipe\n",
    )


def test_a_port_that_is_taken(testbed: RunningTestbed) -> None:
    port = str(urlsplit(testbed.s3_endpoint).port)
    done = subprocess.run(command("--port", port), capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert f"cannot listen on 127.0.0.1 port {port}" in done.stderr


def test_a_testbed_that_cannot_start_says_why() -> None:
    with pytest.raises(TestbedError, match="'No' is not a bucket name"), launch_testbed(buckets=["No"]):
        pass


def ended(pid: int) -> bool:
    """Returns whether the process is gone, or only waits for its parent to notice."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


PARENT = """
import os, sys, time
from buckettestbed import launch_testbed
with launch_testbed(buckets=["data"]) as testbed:
    if sys.argv[1] == "fork" and os.fork() == 0:  # A worker that inherits the pipe and lives on.
        os.close(1)
        time.sleep(float(sys.argv[2]))
        os._exit(0)
    print(testbed.pid, flush=True)
    time.sleep(60)
"""


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks at /proc")
@pytest.mark.parametrize("kind", ["alone", "fork"])
def test_the_testbed_ends_when_its_parent_is_killed(kind: str) -> None:
    arguments = [sys.executable, "-c", PARENT, kind, "60"]
    parent = subprocess.Popen(arguments, stdout=subprocess.PIPE, start_new_session=True)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    assert not ended(pid)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    try:
        limit_s = time.monotonic() + 30  # Less than the forked worker's life.
        while not ended(pid) and time.monotonic() < limit_s:
            time.sleep(0.05)
        assert ended(pid)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(parent.pid, signal.SIGKILL)  # The forked worker, and whatever else is left of the session.


def test_launching_leaves_no_process_behind() -> None:
    with launch_testbed(buckets=[BUCKET]) as running:
        os.kill(running.pid, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(running.pid, 0)
