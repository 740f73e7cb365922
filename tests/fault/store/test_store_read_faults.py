"""Reads through a server that fails in every way give the right bytes after the right attempts, or a named error."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable

import pytest
from scripted_s3 import SECRET, Fault, ScriptedS3, error_body

from torchbucket.config import MIB, RetryConfig
from torchbucket.errors import (
    NotFoundError,
    ObjectChangedError,
    PermissionDeniedError,
    StoreError,
    ThrottledError,
    TransportError,
    TruncatedError,
    UnsupportedError,
)
from torchbucket.store import Read, RequestRecord, Store, open_store

CONTENT = random.Random(3).randbytes(300_000)
Opened = Callable[..., Store]

PASSING = {
    "500": Fault(status=500, body=error_body("InternalError")),
    "500 without a body": Fault(status=500),
    "502 by a proxy": Fault(status=502, body=b"<html>bad gateway</html>"),
    "503 SlowDown": Fault(status=503, body=error_body("SlowDown")),
    "429": Fault(status=429, headers={"retry-after": "0"}),
    "408": Fault(status=408),
    "400 RequestTimeout": Fault(status=400, body=error_body("RequestTimeout")),
    "reset before the answer": Fault(reset_after=-1),
    "reset inside the body": Fault(reset_after=100_000),
    "closed before the answer": Fault(close_after=-1),
    "closed after the head": Fault(close_after=0),
    "closed inside the body": Fault(close_after=100_000),
    "206 of another place": Fault(status=206, body=b"abc", headers={"content-range": "bytes 7-9/300000"}),
    "206 of no place": Fault(status=206, body=b"abc"),
}
HOW = ("bytes", "memory", "known", "known memory", "middle", "middle memory")


def read(store: Store, how: str) -> bytes:
    memory = memoryview(bytearray(len(CONTENT))) if "memory" in how else None
    size_bytes = len(CONTENT) if "known" in how else None
    start, stop = (1234, 290_000) if "middle" in how else (0, None)
    return bytes(
        store.submit_read(Read(key="k", start=start, stop=stop, into=memory, size_bytes=size_bytes)).result(30).data
    )


def expected(how: str) -> bytes:
    return CONTENT[1234:290_000] if "middle" in how else CONTENT


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("fault", PASSING)
def test_what_passes_is_tried_again(
    server: ScriptedS3, opened: Opened, records: list[RequestRecord], fault: str, how: str
) -> None:
    server.objects["k"] = CONTENT
    server.faults["get_object"].extend([PASSING[fault]] * 2)
    assert read(opened(), how) == expected(how)
    assert server.count("get_object") == 3


@pytest.mark.parametrize("how", HOW)
def test_a_retry_asks_for_the_rest_only(server: ScriptedS3, opened: Opened, how: str) -> None:
    server.objects["k"] = CONTENT
    server.faults["get_object"].extend([Fault(close_after=100_000), Fault(close_after=50_000)])
    assert read(opened(), how) == expected(how)
    first = 1234 if "middle" in how else 0
    again = server.of("get_object")[1:]
    assert [seen.headers["range"].partition("-")[0] for seen in again] == [
        f"bytes={first + 100_000}",
        f"bytes={first + 150_000}",
    ]
    assert all("if-match" in seen.headers for seen in again)


@pytest.mark.parametrize("how", HOW)
def test_an_object_overwritten_between_attempts_is_never_mixed(server: ScriptedS3, opened: Opened, how: str) -> None:
    server.objects["k"] = CONTENT
    server.faults["get_object"].append(Fault(close_after=100_000))
    server.faults["get_object"].append(Fault(status=500, replace_object=b"x" * len(CONTENT)))
    with pytest.raises(ObjectChangedError, match="s3://bucket/k"):
        read(opened(), how)


@pytest.mark.parametrize("how", HOW)
def test_a_server_that_ignores_ranges(server: ScriptedS3, opened: Opened, how: str) -> None:
    server.objects["k"] = CONTENT
    server.ignores_ranges = True
    server.faults["get_object"].append(Fault(close_after=100_000))
    assert read(opened(), how) == expected(how)


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (Fault(status=500, body=error_body("InternalError")), TransportError),
        (Fault(status=503, body=error_body("SlowDown")), ThrottledError),
        (Fault(status=429), ThrottledError),
        (Fault(reset_after=-1), TransportError),
        (Fault(close_after=0), TruncatedError),
    ],
)
def test_an_error_after_all_attempts_says_so(server: ScriptedS3, opened: Opened, fault: Fault, kind: type) -> None:
    server.objects["k"] = CONTENT
    server.faults["get_object"].extend([fault] * 9)
    with pytest.raises(kind, match="gave up after 4 attempts") as caught:
        read(opened(retry=RetryConfig(initial_s=0.001, max_attempts=4)), "known")
    assert caught.value.attempts == server.count("get_object") == 4
    assert pickle.loads(pickle.dumps(caught.value)).attempts == 4


FINAL = {
    "NoSuchKey": (404, {}, NotFoundError, "no such object"),
    "NoSuchBucket": (404, {}, NotFoundError, "no bucket s3://bucket"),
    "AccessDenied": (403, {}, PermissionDeniedError, "policies"),
    "InvalidAccessKeyId": (403, {}, PermissionDeniedError, "AWS_ACCESS_KEY_ID"),
    "SignatureDoesNotMatch": (403, {}, PermissionDeniedError, "AWS_SECRET_ACCESS_KEY"),
    "ExpiredToken": (400, {}, PermissionDeniedError, "expired"),
    "RequestTimeTooSkewed": (403, {}, PermissionDeniedError, "clock"),
    "AuthorizationHeaderMalformed": (400, {"Region": "us-east-1"}, StoreError, "another region or endpoint"),
    "PermanentRedirect": (301, {"Endpoint": "bucket.s3.eu-west-3.amazonaws.com"}, StoreError, "another region"),
    "InvalidRequest": (400, {}, StoreError, "InvalidRequest: scripted"),
    "NotImplemented": (501, {}, UnsupportedError, "does not support"),
}


@pytest.mark.parametrize("code", FINAL)
def test_what_no_retry_mends_fails_at_once(
    server: ScriptedS3, opened: Opened, records: list[RequestRecord], code: str
) -> None:
    status, fields, kind, said = FINAL[code]
    server.faults["get_object"].append(Fault(status=status, body=error_body(code, **fields)))
    store = opened()
    with pytest.raises(kind, match=said) as caught:
        read(store, "bytes")
    error = caught.value
    assert (error.status, error.code, error.attempts, server.count("get_object")) == (status, code, 1, 1)
    everything = (str(error), repr(error), pickle.dumps(error), repr(store), pickle.dumps(store), repr(records))
    assert not any(SECRET in (text if isinstance(text, str) else text.decode("latin-1")) for text in everything)


ELSEWHERE = {
    "301": Fault(status=301, body=error_body("PermanentRedirect"), headers={"x-amz-bucket-region": "sa-east-1"}),
    "301 without a body": Fault(status=301, headers={"x-amz-bucket-region": "sa-east-1"}),
    "307": Fault(status=307, body=error_body("TemporaryRedirect", Region="sa-east-1")),
    "400": Fault(status=400, body=error_body("AuthorizationHeaderMalformed", Region="sa-east-1")),
    "400 without a body": Fault(status=400, headers={"x-amz-bucket-region": "sa-east-1"}),
}


def regions(server: ScriptedS3) -> list[str]:
    return [seen.headers["authorization"].split("/")[2] for seen in server.seen]


@pytest.mark.parametrize(
    ("kind", "answer"),
    [
        *((kind, answer) for kind in ("get_object", "put_object") for answer in ELSEWHERE),
        ("head_object", "301 without a body"),
        ("head_object", "400 without a body"),
    ],
)
def test_a_bucket_in_another_region_is_followed_once(
    server: ScriptedS3, opened: Opened, kind: str, answer: str
) -> None:
    server.objects["k"] = CONTENT
    server.faults[kind].append(ELSEWHERE[answer])
    store = opened()
    ask = {
        "get_object": lambda: read(store, "known"),
        "head_object": lambda: store.head("k"),
        "put_object": lambda: store.write("k", b"content"),
    }[kind]
    ask()
    ask()
    assert regions(server) == ["us-east-1", "sa-east-1", "sa-east-1"]
    server.faults[kind].append(Fault(status=301, headers={"x-amz-bucket-region": "eu-west-3"}))
    with pytest.raises(StoreError, match=r"'eu-west-3', not 'sa-east-1'; set StoreConfig\(region='eu-west-3'\)"):
        ask()


def test_requests_that_were_on_the_way_to_the_wrong_region_are_sent_again(server: ScriptedS3, opened: Opened) -> None:
    server.objects["k"] = CONTENT
    server.faults["get_object"].extend([ELSEWHERE["301"]] * 20)
    store = opened()
    futures = [store.submit_read(Read(key="k", stop=10)) for _ in range(20)]
    assert {bytes(future.result().data) for future in futures} == {CONTENT[:10]}


@pytest.mark.parametrize("named", ["evil.example.com/", "x.y", "A", "a" * 60, "sa-east-1@evil", ""])
def test_what_is_no_region_is_not_followed(server: ScriptedS3, opened: Opened, named: str) -> None:
    server.faults["head_object"].append(Fault(status=301, headers={"x-amz-bucket-region": named}))
    with pytest.raises(StoreError, match="region"):
        opened().head("k")
    assert server.count("head_object") == 1


def test_a_stall_ends(server: ScriptedS3, opened: Opened) -> None:
    server.objects["k"] = CONTENT
    server.faults["get_object"].append(Fault(stall_after=100_000))
    assert read(opened(stall_timeout_s=1), "known memory") == CONTENT
    assert server.of("get_object")[1].headers["range"].startswith("bytes=100000-")


def test_a_silence_ends_on_connections_old_and_new(server: ScriptedS3, opened: Opened) -> None:
    """Without a hedge, and long before the time that a connection may take to be made."""
    server.objects["k"] = CONTENT
    server.faults["get_object"].extend([Fault(stall_after=-1)] * 2)
    store = opened(stall_timeout_s=1, connect_timeout_s=100, hedge_share=0.0)
    store.head("k")  # makes the connection that one of them goes by
    futures = [store.submit_read(Read(key="k", stop=10)) for _ in range(2)]
    assert {bytes(future.result(60).data) for future in futures} == {CONTENT[:10]}
    assert server.count("get_object") == 4


def test_an_operation_ends_at_its_limit(server: ScriptedS3, opened: Opened) -> None:
    server.objects["k"] = CONTENT
    server.faults["get_object"].append(Fault(stall_after=-1))
    with pytest.raises(TransportError, match=r"deadline_s is 0\.3"):
        read(opened(retry=RetryConfig(deadline_s=0.3)), "known")


def test_nobody_listens(opened: Opened) -> None:
    with pytest.raises(TransportError, match="gave up after 2 attempts"):
        opened(endpoint="http://127.0.0.1:1", retry=RetryConfig(initial_s=0.001, max_attempts=2)).read("k")


def test_a_longer_wait_that_the_server_asks_for_is_bounded(server: ScriptedS3, opened: Opened) -> None:
    """A wait of an hour would run into the test's limit."""
    server.objects["k"] = CONTENT
    server.faults["get_object"].append(Fault(status=503, headers={"retry-after": "3600"}))
    assert read(opened(), "known") == CONTENT


def large(size: int) -> bytes:
    return random.Random(size).randbytes(size)


@pytest.mark.parametrize("size_known", [False, True])
def test_a_large_read_over_faults(server: ScriptedS3, opened: Opened, size_known: bool) -> None:
    content = large(17 * MIB + 3)
    server.objects["k"] = content
    server.faults["get_object"].extend([Fault(reset_after=1 << 20), Fault(status=500), Fault(close_after=3 << 20)])
    data = opened().submit_read(Read(key="k", size_bytes=len(content) if size_known else None)).result(60).data
    assert data == content


@pytest.mark.parametrize("size_known", [False, True])
def test_a_large_object_overwritten_midway(server: ScriptedS3, opened: Opened, size_known: bool) -> None:
    content = large(17 * MIB)
    server.objects["k"] = content
    # The second request finds another object of the same size; no answer to it is spoiled.
    server.faults["get_object"].extend([Fault(), Fault(replace_object=content[::-1], status=500)])
    with pytest.raises(ObjectChangedError, match="s3://bucket/k"):
        opened(concurrency=1).submit_read(Read(key="k", size_bytes=len(content) if size_known else None)).result(60)


def test_one_failed_range_fails_the_whole(server: ScriptedS3, opened: Opened) -> None:
    content = large(40 * MIB)
    server.objects["k"] = content
    server.faults["get_object"].extend([Fault(), Fault(status=403, body=error_body("AccessDenied"))])
    with pytest.raises(PermissionDeniedError):
        opened(concurrency=1).submit_read(Read(key="k", size_bytes=len(content))).result(60)
    assert server.count("get_object") < 8


def test_every_attempt_is_recorded(server: ScriptedS3, opened: Opened, records: list[RequestRecord]) -> None:
    server.objects["k"] = CONTENT
    server.faults["get_object"].extend([Fault(status=500, body=b"oops"), Fault(close_after=1000)])
    store = opened()
    read(store, "known")
    store.close()
    assert [(r.operation, r.key, r.attempt, r.status, r.bytes_received) for r in records] == [
        ("get_object", "k", 1, 500, 4),
        ("get_object", "k", 2, 200, 1000),
        ("get_object", "k", 3, 206, len(CONTENT) - 1000),
    ]
    assert [r.error is None for r in records] == [False, False, True]
    assert all(r.started_s <= (r.first_byte_s or 0) <= r.ended_s for r in records)


def test_an_observer_that_fails_costs_nothing(server: ScriptedS3, opened: Opened) -> None:
    server.objects["k"] = CONTENT

    def fail(record: RequestRecord) -> None:
        raise ZeroDivisionError

    store = open_store("s3://bucket", opened().config, observer=fail)
    assert read(store, "known") == CONTENT
    store.close()
