"""Uploads over the JSON API: in one request, multipart bodies cut anywhere, and resumable sessions."""

from __future__ import annotations

import base64
import random
import re
from collections.abc import Iterator
from itertools import pairwise

import google_crc32c
import pytest
from examples import examples
from gcs_json_kit import UNIT, UPLOADS, JsonDriver, document_of, reason_of
from hypothesis import given, settings
from hypothesis import strategies as st

from buckettestbed.gcs.json.errors import JsonError
from buckettestbed.gcs.json.related import RelatedParser, boundary_of
from buckettestbed.model.directory import DirectoryStorage

BODY = random.Random(1).randbytes(2 * UNIT + 12345)
WRONG_CRC32C = "AAAAAA=="


def crc32c(body: bytes) -> str:
    return base64.b64encode(google_crc32c.value(body).to_bytes(4, "big")).decode()


@pytest.fixture(params=["memory", "directory"])
def driver(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JsonDriver]:
    storage = DirectoryStorage(tmp_path_factory.mktemp("objects")) if request.param == "directory" else None
    driver = JsonDriver(storage)
    yield driver
    driver.buckets.storage.close()


def test_media_uploads_verify_their_hash(driver: JsonDriver) -> None:
    query = {"uploadType": "media", "name": "k"}
    for header, status in [
        (f"crc32c={WRONG_CRC32C}", 400),
        ("md5=" + base64.b64encode(bytes(16)).decode(), 400),
        ("crc32c=x", 400),
        (f"crc32c={crc32c(b'abc')}", 200),
    ]:
        answer = driver.call("POST", UPLOADS, query, headers={"x-goog-hash": header}, body=b"abc")
        assert answer.status == status
        assert driver.call("GET", driver.of("k")).status == (200 if status == 200 else 404)
    described = driver.call("POST", UPLOADS, query, headers={"content-type": "a/b"}, body=b"abc")
    assert document_of(described)["contentType"] == "a/b"


@pytest.mark.parametrize("line", ["\r\n", "\n"])
def test_multipart_uploads(driver: JsonDriver, line: str) -> None:
    document = f'{{"name": "a/b", "metadata": {{"x": "ü"}}, "crc32c": "{crc32c(BODY)}"}}'
    head = line.join(
        ["--==0==", "Content-Type: application/json", "", document, "--==0==", "Content-Type: a/b", "", ""]
    )
    whole = head.encode() + BODY + f"{line}--==0==--".encode()
    headers = {"content-type": 'multipart/related; boundary="==0=="'}
    pieces = [whole[start : start + 65536] for start in range(0, len(whole), 65536)]
    resource = document_of(driver.call("POST", UPLOADS, {"uploadType": "multipart"}, headers=headers, body=pieces))
    assert (resource["name"], resource["contentType"], resource["metadata"]) == ("a/b", "a/b", {"x": "ü"})
    assert driver.load("a/b").body == BODY
    for wrong in (
        whole.replace(crc32c(BODY).encode(), WRONG_CRC32C.encode()),
        whole[:-10],
        whole.replace(b'"a/b"', b'"a\\n"'),
        whole.replace(b'{"name"', b"{name"),
        b"no boundary",
        head.encode()[: head.rindex("--==0==")] + b"--==0==--",
    ):
        assert driver.call("POST", UPLOADS, {"uploadType": "multipart"}, headers=headers, body=wrong).status == 400
    assert driver.names() == ["a/b"]
    assert driver.load("a/b").headers["x-goog-generation"] == resource["generation"]


@given(
    content=st.lists(st.sampled_from([b"\r", b"\n", b"-", b"--b", b"\r\n--", b"\r\n--a", b"x", b"--"])).map(b"".join),
    line=st.sampled_from([b"\r\n", b"\n"]),
    preamble=st.sampled_from([b"", b"\r\n", b"hello\r\n"]),
    cuts=st.lists(st.integers(0, 200), max_size=8),
)
def test_a_multipart_body_may_be_cut_anywhere(content: bytes, line: bytes, preamble: bytes, cuts: list[int]) -> None:
    body = line.join(
        [preamble + b"--bound ", b"", b'{"a": 1}', b"--bound", b"Content-Type: t/s", b"", content, b"--bound--"]
    )
    body += b"\r\nepilogue"
    edges = [0, *sorted(cut for cut in cuts if cut < len(body)), len(body)]
    parser = RelatedParser(b"bound", metadata_limit_bytes=1000)
    out = [piece for start, stop in pairwise(edges) for piece in parser.feed(body[start:stop])]
    assert b"".join(out) == content
    assert (parser.metadata, parser.content_type, parser.complete) == (b'{"a": 1}', "t/s", True)


@pytest.mark.parametrize(
    "body",
    [b"x" * 70_000, b"--b\n" + b"x" * 70_000, b"--b\n\n" + b"x" * 70_000, b"--b\n\n1\n--b\n\n2\n--b\n\n3\n--b--"],
)
def test_multipart_bodies_that_are_none(body: bytes) -> None:
    with pytest.raises(JsonError):
        RelatedParser(b"b", metadata_limit_bytes=100).feed(body)


@pytest.mark.parametrize(
    "content_type", ["", "text/plain; boundary=x", "multipart/related", 'multipart/related; boundary=""']
)
def test_a_boundary_is_needed(content_type: str) -> None:
    with pytest.raises(JsonError, match="needs a boundary"):
        boundary_of(content_type)


def persisted(answer: object) -> int:
    """Returns how many bytes a 308 says are persisted."""
    assert getattr(answer, "status", None) == 308
    text = getattr(answer, "headers", {}).get("range")
    if text is None:
        return 0
    match = re.fullmatch(r"bytes=0-(\d+)", text)
    assert match
    return int(match[1]) + 1


def test_a_session_in_chunks(driver: JsonDriver) -> None:
    resource = {"contentType": "a/b", "metadata": {"x": "1"}, "crc32c": crc32c(BODY)}
    session = driver.start("a/b", resource)
    assert [upload.key for upload in driver.buckets.bucket("data").sessions.values()] == ["a/b"]
    assert persisted(driver.send(session, content_range="bytes */*")) == 0
    for start in range(0, 2 * UNIT, UNIT):
        chunk = BODY[start : start + UNIT]
        assert (
            persisted(driver.send(session, chunk, content_range=f"bytes {start}-{start + UNIT - 1}/*")) == start + UNIT
        )
        assert persisted(driver.send(session, content_range=f"bytes */{len(BODY)}")) == start + UNIT
        assert driver.names() == []
    last = {"content_range": f"bytes {2 * UNIT}-{len(BODY) - 1}/{len(BODY)}", "x_goog_hash": f"crc32c={crc32c(BODY)}"}
    done = document_of(driver.send(session, BODY[2 * UNIT :], **last))
    assert (done["name"], done["contentType"], done["metadata"], done["size"]) == (
        "a/b",
        "a/b",
        {"x": "1"},
        str(len(BODY)),
    )
    assert driver.load("a/b").body == BODY
    assert not driver.buckets.bucket("data").sessions
    for again in (driver.send(session, content_range="bytes */*"), driver.send(session, BODY[2 * UNIT :], **last)):
        assert document_of(again) == done


def test_sessions_whose_size_comes_last_or_not_at_all(driver: JsonDriver) -> None:
    session = driver.start("zero-byte-end")
    assert persisted(driver.send(session, BODY[:UNIT], content_range=f"bytes 0-{UNIT - 1}/*")) == UNIT
    assert document_of(driver.send(session, content_range=f"bytes */{UNIT}"))["size"] == str(UNIT)
    assert document_of(driver.send(driver.start("empty"), content_range="bytes */0"))["size"] == "0"
    assert document_of(driver.send(driver.start("empty-put")))["size"] == "0"
    assert document_of(driver.send(driver.start("at-once"), BODY, method="POST"))["size"] == str(len(BODY))
    assert driver.load("at-once").body == BODY
    for total in ("*", str(len(BODY))):
        session = driver.start("streamed")
        assert persisted(driver.send(session, BODY[:UNIT], content_range=f"bytes 0-{UNIT - 1}/*")) == UNIT
        rest = driver.send(session, BODY[UNIT:], content_range=f"bytes {UNIT}-*/{total}")
        assert document_of(rest)["size"] == str(len(BODY))
        assert driver.load("streamed").body == BODY


def test_bytes_may_be_repeated_and_chunks_be_odd(driver: JsonDriver) -> None:
    session = driver.start("k", x_upload_content_length=str(len(BODY)))
    assert persisted(driver.send(session, BODY[: UNIT + 5], content_range=f"bytes 0-{UNIT + 4}/*")) == UNIT
    assert persisted(driver.send(session, BODY[: 2 * UNIT], content_range=f"bytes 0-{2 * UNIT - 1}/*")) == 2 * UNIT
    assert persisted(driver.send(session, BODY[:UNIT], content_range=f"bytes 0-{UNIT - 1}/*")) == 2 * UNIT
    done = driver.send(session, BODY[100:], content_range=f"bytes 100-{len(BODY) - 1}/{len(BODY)}")
    assert document_of(done)["crc32c"] == crc32c(BODY)
    assert driver.load("k").body == BODY


def test_chunks_that_are_refused(driver: JsonDriver) -> None:
    session = driver.start("k", x_upload_content_length=str(len(BODY)))
    for body, content_range in [
        (BODY[:10], "bytes 0-9/*"),
        (BODY[:UNIT], f"bytes {UNIT}-{2 * UNIT - 1}/*"),
        (BODY[:UNIT], f"bytes 0-{UNIT}/*"),
        (BODY[:UNIT], f"bytes 0-{UNIT - 1}/{UNIT - 1}"),
        (BODY[:UNIT], f"bytes 0-{UNIT - 1}/{UNIT * 9}"),
        (BODY[:UNIT], "bytes x"),
        (b"", "bytes */1"),
    ]:
        answer = driver.send(session, body, content_range=content_range)
        assert (answer.status, reason_of(answer)) == (400, "invalid"), content_range
    assert persisted(driver.send(session, content_range="bytes */*")) == 0
    assert (
        driver.call(
            "POST", UPLOADS, {"uploadType": "resumable", "name": "k"}, headers={"x-upload-content-length": "x"}
        ).status
        == 400
    )


def test_bytes_beyond_the_stated_end_are_refused(driver: JsonDriver) -> None:
    session = driver.start("k")
    assert driver.send(session, BODY + b"x", content_range=f"bytes 0-*/{len(BODY)}").status == 400
    assert driver.names() == []


@settings(max_examples=examples(20))
@given(sent=st.integers(0, len(BODY) - 1))
def test_a_broken_connection_leaves_whole_units(sent: int) -> None:
    driver = JsonDriver()
    session = driver.start("k")

    everything = {"content_range": f"bytes 0-{len(BODY) - 1}/{len(BODY)}", "content_length": str(len(BODY))}
    driver.break_off(session, BODY[:sent], **everything)
    start = persisted(driver.send(session, content_range=f"bytes */{len(BODY)}"))
    assert start == sent // UNIT * UNIT
    driver.send(session, BODY[start:], content_range=f"bytes {start}-{len(BODY) - 1}/{len(BODY)}")
    assert driver.load("k").body == BODY


def test_wrong_hashes_publish_nothing_and_end_the_session(driver: JsonDriver) -> None:
    everything = f"bytes 0-{len(BODY) - 1}/{len(BODY)}"
    session = driver.start("k", {"crc32c": WRONG_CRC32C})
    assert driver.send(session, BODY, content_range=everything).status == 400
    assert driver.send(session, content_range="bytes */*").status == 410
    session = driver.start("k")
    assert driver.send(session, BODY, content_range=everything, x_goog_hash=f"crc32c={WRONG_CRC32C}").status == 400
    assert driver.names() == []
    assert not driver.buckets.bucket("data").sessions


def test_a_condition_is_checked_when_the_object_is_published(driver: JsonDriver) -> None:
    opened = driver.call("POST", UPLOADS, {"uploadType": "resumable", "name": "k", "ifGenerationMatch": "0"})
    session = opened.headers["location"][21:]
    driver.save("k", b"meanwhile")
    assert driver.send(session, BODY).status == 412
    assert driver.load("k").body == b"meanwhile"


def test_cancelled_and_unknown_sessions(driver: JsonDriver) -> None:
    session = driver.start("k")
    driver.send(session, BODY[:UNIT], content_range=f"bytes 0-{UNIT - 1}/*")
    assert driver.send(session, method="DELETE").status == 499
    assert driver.send(session, content_range="bytes */*").status == 410
    assert driver.send(session, method="DELETE").status == 410
    assert driver.send(session[:-3] + "xyz", BODY).status == 404
    assert not driver.buckets.bucket("data").sessions
    driver.start("left-open")
    assert driver.call("DELETE", "/storage/v1/b/data").status == 204


def test_a_session_names_its_key_to_the_counters(driver: JsonDriver) -> None:
    session = driver.start("a/b")
    seen = []
    dialect = driver.application.dialect(("127.0.0.1", 9001))
    original = dialect.identify
    dialect.identify = lambda request: seen.append(original(request)) or seen[-1]  # type: ignore[method-assign, func-returns-value]
    path, _, query = session.partition("?")
    driver.send(f"{path}?{query.replace('name=a%2Fb&', '')}", content_range="bytes */*")
    driver.send(session, b"1")
    driver.send(session, method="DELETE")
    assert [(found.name, found.bucket, found.key) for found in seen] == [
        ("query_session", "data", "a/b"),
        ("upload_chunk", "data", "a/b"),
        ("cancel_session", "data", "a/b"),
    ]


def test_every_hash_that_is_stated_must_be_right(driver: JsonDriver) -> None:
    right, wrong = crc32c(b"abc"), WRONG_CRC32C
    for of_header, of_metadata, status in [(right, wrong, 400), (wrong, right, 400), (right, right, 200)]:
        headers = {"content-type": "multipart/related; boundary=x", "x-goog-hash": f"crc32c={of_header}"}
        document = f'{{"name": "k", "crc32c": "{of_metadata}"}}'.encode()
        body = b"--x\r\n\r\n%s\r\n--x\r\n\r\nabc\r\n--x--" % document
        answer = driver.call("POST", UPLOADS, {"uploadType": "multipart"}, headers=headers, body=body)
        assert answer.status == status, (of_header, of_metadata)
        session = driver.start("s", {"crc32c": of_metadata}, x_goog_hash=f"crc32c={right}")
        assert driver.send(session, b"abc", x_goog_hash=f"crc32c={of_header}").status == status
    both = {"x-goog-hash": f"crc32c={right},crc32c={wrong}"}
    assert driver.call("POST", UPLOADS, {"uploadType": "media", "name": "m"}, headers=both, body=b"abc").status == 400
    assert driver.names() == ["k", "s"]
