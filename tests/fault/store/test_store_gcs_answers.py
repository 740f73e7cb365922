"""What the Cloud Storage dialect sends, byte for byte, and what it makes of answers that no testbed gives."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from urllib.parse import parse_qs, urlsplit

import google_crc32c
import pytest
from scripted_gcs import Say, ScriptedGcs

from torchbucket.config import MIB, RetryConfig, StoreConfig
from torchbucket.errors import (
    ConfigError,
    NotFoundError,
    ObjectChangedError,
    PermissionDeniedError,
    PreconditionFailedError,
    StoreError,
    ThrottledError,
    TransportError,
    UnsupportedError,
)
from torchbucket.store import ObjectInfo, Read, Store, open_store
from torchbucket.store.gcs.writes import CopyObject
from torchbucket.store.transport.operation import Request

Opened = Callable[..., tuple[ScriptedGcs, Store]]


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Iterator[Opened]:
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    with ExitStack() as stack:

        def make(*answers: Say, **settings: object) -> tuple[ScriptedGcs, Store]:
            server = stack.enter_context(ScriptedGcs(*answers))
            fields: dict[str, object] = {
                "endpoint": server.endpoint,
                "part_size_bytes": 5 * MIB,
                "hedge_share": 0.0,
                "retry": RetryConfig(initial_s=0.0, maximum_s=0.0, max_attempts=3),
                **settings,
            }
            store = open_store("gs://bucket", StoreConfig(**fields))  # type: ignore[arg-type]  # by name
            stack.callback(store.close)
            return server, store

        yield make


def crc(content: bytes) -> str:
    return base64.b64encode(google_crc32c.value(content).to_bytes(4, "big")).decode()


def resource(key: str, content: bytes, generation: int = 7) -> bytes:
    fields = {"name": key, "size": str(len(content)), "generation": str(generation), "crc32c": crc(content)}
    return json.dumps({**fields, "updated": "2026-11-28T00:00:00.000Z"}).encode()


def json_error(status: int, reason: str, message: str = "scripted") -> Say:
    document = {"error": {"code": status, "message": message, "errors": [{"reason": reason, "message": message}]}}
    return Say(status=status, body=json.dumps(document).encode())


def xml_error(status: int, code: str, message: str = "scripted") -> Say:
    return Say(status=status, body=f"<Error><Code>{code}</Code><Message>{message}</Message></Error>".encode())


def stored(content: bytes, generation: int = 7) -> tuple[tuple[str, str], ...]:
    """As Google sends them: each hash in a header of its own."""
    return (
        ("x-goog-generation", str(generation)),
        ("x-goog-hash", f"crc32c={crc(content)}"),
        ("x-goog-hash", "md5=AAAAAAAAAAAAAAAAAAAAAA=="),
        ("x-goog-stored-content-length", str(len(content))),
    )


BEGUN = Say(body=b"<InitiateMultipartUploadResult><UploadId>u+1/=</UploadId></InitiateMultipartUploadResult>")
COMPLETED = b"<CompleteMultipartUploadResult><ETag>&quot;x-2&quot;</ETag></CompleteMultipartUploadResult>"


@pytest.mark.parametrize(
    ("key", "in_xml", "in_json"),
    [
        ("a/b", "/bucket/a/b", "/storage/v1/b/bucket/o/a%2Fb"),
        ("q?a=b#c", "/bucket/q%3Fa%3Db%23c", "/storage/v1/b/bucket/o/q%3Fa%3Db%23c"),
        ("%2F+ é", "/bucket/%252F%2B%20%C3%A9", "/storage/v1/b/bucket/o/%252F%2B%20%C3%A9"),
        ("a/../b//c/", "/bucket/a/../b//c/", "/storage/v1/b/bucket/o/a%2F..%2Fb%2F%2Fc%2F"),
    ],
)
def test_names_are_encoded_for_each_api(opened: Opened, key: str, in_xml: str, in_json: str) -> None:
    content = b"content"
    server, store = opened(Say(body=content, headers=stored(content)), Say(body=resource(key, content)))
    assert bytes(store.submit_read(Read(key=key, size_bytes=7)).result().data) == content
    assert store.head(key).version == "7"
    assert server.asked[0].target == in_xml
    assert server.asked[1].target.split("?")[0] == in_json


def test_a_read_asks_for_stored_bytes_of_one_generation(opened: Opened) -> None:
    server, store = opened(Say(status=206, body=b"bc", headers=(*stored(b"abcd"), ("content-range", "bytes 1-2/4"))))
    assert bytes(store.read("k", start=1, stop=3, version="7").data) == b"bc"
    asked = server.asked[0].headers
    assert asked["range"] == "bytes=1-2"
    assert asked["x-goog-if-generation-match"] == "7"
    assert asked["accept-encoding"] == "gzip"
    assert "authorization" not in asked


def test_bytes_that_were_transcoded_are_not_taken(opened: Opened) -> None:
    answer = Say(body=b"decompressed", headers=(("x-goog-stored-content-length", "5"),))
    _, store = opened(answer, answer, answer)
    with pytest.raises(TransportError, match="compressed or decompressed on the way"):
        store.submit_read(Read(key="k", size_bytes=12)).result()


def test_a_listing_asks_for_three_fields(opened: Opened) -> None:
    items = [{"name": name, "size": "3", "generation": "9"} for name in ("p/a", "p/b", "p/c")]
    server, store = opened(
        Say(body=json.dumps({"items": items[:2], "nextPageToken": "t"}).encode()),
        Say(body=json.dumps({"nextPageToken": "t2+/="}).encode()),
        Say(body=json.dumps({"items": items[2:]}).encode()),
        list_page_size=2,
    )
    found = list(store.list("p/", start_after="p/a"))
    assert [(info.key, info.size_bytes, info.version) for info in found] == [("p/b", 3, "9"), ("p/c", 3, "9")]
    query = parse_qs(urlsplit(server.asked[0].target).query)
    assert query["fields"] == ["nextPageToken,items(name,size,generation)"]
    assert (query["prefix"], query["startOffset"], query["maxResults"]) == (["p/"], ["p/a"], ["2"])
    following, after_nothing = (parse_qs(urlsplit(asked.target).query) for asked in server.asked[1:])
    assert following["startOffset"] == ["p/b"]
    assert "pageToken" not in following
    assert after_nothing["pageToken"] == ["t2+/="]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>a log-in page</html>",
        b"[]",
        b'{"items": {}}',
        b'{"items": [{"name": "a"}]}',
        b'{"items": [{"size": "1"}]}',
        b'{"items": [{"name": 1, "size": "1"}]}',
        b'{"items": [{"name": "a", "size": "-1"}]}',
        b'{"items": [{"name": "a", "size": "many"}]}',
        b'{"items": [{"name": "a", "size": "1", "generation": 5}]}',
        b'{"items": [null]}',
        b'{"nextPageToken": 5}',
        b"[" * 100_000,
    ],
)
def test_a_listing_that_is_none_is_an_error(opened: Opened, body: bytes) -> None:
    _, store = opened(*[Say(body=body)] * 3)
    with pytest.raises(TransportError, match="is the endpoint a Cloud Storage service"):
        list(store.list())


def test_what_is_written_carries_its_checksum_and_key(opened: Opened) -> None:
    key = "projects/p/locations/l/keyRings/r/cryptoKeys/k"
    server, store = opened(Say(headers=stored(b"123456789")), kms_key_name=key, user_project="payer", anonymous=True)
    info = store.write("k", b"123456789", if_version="6")
    assert (info.version, info.size_bytes) == ("7", 9)
    asked = server.asked[0].headers
    assert asked["x-goog-hash"] == "crc32c=4waSgw=="  # the CRC-32C of 123456789 is e3069283
    assert asked["x-goog-if-generation-match"] == "6"
    assert asked["x-goog-encryption-kms-key-name"] == key
    assert asked["x-goog-user-project"] == "payer"
    assert "expect" not in asked


def test_damage_that_the_server_reports_is_repaired(opened: Opened) -> None:
    server, store = opened(
        Say(headers=stored(b"other")), xml_error(400, "CrcMismatch"), Say(headers=stored(b"content"))
    )
    assert store.write("k", b"content").version == "7"
    assert len(server.asked) == 3


@pytest.mark.parametrize("headers", [True, False], ids=["generation told", "generation asked for"])
def test_an_upload_in_parts(opened: Opened, headers: bool) -> None:
    content = bytes(5 * MIB + 1)
    answers = [
        BEGUN,
        Say(headers=(("etag", '"a"'),)),
        Say(headers=(("etag", '"b"'),)),
        Say(body=COMPLETED, headers=stored(content) if headers else ()),
    ]
    if not headers:
        answers.append(Say(headers=(*stored(content), ("content-length", str(len(content))))))
    server, store = opened(*answers, concurrency=1, anonymous=True)
    info = store.write("k", content)
    assert (info.version, info.size_bytes) == ("7", len(content))
    assert server.asked[0].target == "/bucket/k?uploads"
    assert server.asked[1].target == "/bucket/k?partNumber=1&uploadId=u%2B1%2F%3D"
    assert server.asked[1].headers["x-goog-hash"] == f"crc32c={crc(content[: 5 * MIB])}"
    assert b"<PartNumber>2</PartNumber>" in server.asked[3].body


def test_an_upload_whose_object_has_another_sum_is_an_error(opened: Opened) -> None:
    _, store = opened(
        BEGUN, Say(), Say(), Say(body=COMPLETED, headers=stored(b"?" * (5 * MIB + 1))), Say(status=204), concurrency=1
    )
    with pytest.raises(StoreError, match="CRC-32C"):
        store.write("k", bytes(5 * MIB + 1))


def test_a_completion_that_goes_on_after_its_answer_was_lost(opened: Opened) -> None:
    """The upload is gone already and the object not there yet: it is looked for again."""
    content = bytes(5 * MIB + 1)
    server, store = opened(
        BEGUN,
        Say(),
        Say(),
        Say(lost=True),
        xml_error(404, "NoSuchUpload"),
        Say(status=404),
        Say(headers=(*stored(content), ("content-length", str(len(content))))),
        concurrency=1,
        retry=RetryConfig(initial_s=0.0, maximum_s=0.0, max_attempts=5),
    )
    assert store.write("k", content).version == "7"
    assert [asked.method for asked in server.asked[3:]] == ["POST", "POST", "HEAD", "HEAD"]


def test_a_compose_whose_answer_was_lost_is_not_judged_by_its_size(opened: Opened) -> None:
    """Another's object of the size that the sources have together is no proof, and neither is one without a sum."""
    sources = [ObjectInfo(key="a", size_bytes=1, version="4"), ObjectInfo(key="b", size_bytes=1, version="5")]
    for found, error in ((b"ab", None), (b"xy", ObjectChangedError)):
        server, store = opened(
            Say(lost=True),
            json_error(412, "conditionNotMet"),
            *(
                Say(headers=(*stored(content), ("content-length", str(len(content)))))
                for content in (found, b"a", b"b")
            ),
        )
        if error is None:
            assert store.compose(sources, "t").size_bytes == 2
        else:
            with pytest.raises(error):
                store.compose(sources, "t")
        assert [asked.method for asked in server.asked] == ["POST", "POST", "HEAD", "HEAD", "HEAD"]


def test_a_completion_whose_answer_was_lost_needs_a_checksum_to_be_ours(opened: Opened) -> None:
    content = bytes(5 * MIB + 1)
    _, store = opened(
        BEGUN,
        Say(),
        Say(),
        Say(lost=True),
        xml_error(404, "NoSuchUpload"),
        *[Say(headers=(("x-goog-generation", "7"), ("content-length", str(len(content)))))] * 2,
        *[Say(status=204)] * 2,
        concurrency=1,
        retry=RetryConfig(initial_s=0.0, maximum_s=0.0, max_attempts=2),
    )
    with pytest.raises(NotFoundError, match="not open any more"):
        store.write("k", content)


def test_a_copy_goes_on_until_it_is_done(opened: Opened) -> None:
    done = {"done": True, "resource": json.loads(resource("t", b"content", 8))}
    server, store = opened(
        Say(body=resource("s/1", b"content")),
        Say(body=json.dumps({"done": False, "rewriteToken": "more+1"}).encode()),
        Say(status=503),
        Say(body=json.dumps(done).encode()),
    )
    info = store.copy("s/1", "t")
    assert (info.key, info.version, info.size_bytes) == ("t", "8", 7)
    first, again, last = (urlsplit(asked.target) for asked in server.asked[1:])
    assert first.path == "/storage/v1/b/bucket/o/s%2F1/rewriteTo/b/bucket/o/t"
    assert parse_qs(first.query)["ifSourceGenerationMatch"] == ["7"]
    assert "rewriteToken" not in parse_qs(first.query)
    assert parse_qs(again.query) == parse_qs(last.query)
    assert parse_qs(last.query)["rewriteToken"] == ["more+1"]


def test_a_copy_that_gets_on_has_the_whole_deadline_again(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    deadlines: list[float] = []
    build = CopyObject.build

    def noted(self: CopyObject) -> Request:
        assert self.deadline_s is not None
        deadlines.append(self.deadline_s)
        return build(self)

    monkeypatch.setattr(CopyObject, "build", noted)
    going_on = [Say(body=json.dumps({"done": False, "rewriteToken": f"t{number}"}).encode()) for number in range(3)]
    done = json.dumps({"done": True, "resource": json.loads(resource("t", b"content", 8))}).encode()
    _, store = opened(Say(body=resource("s", b"content")), *going_on, Say(status=503), Say(body=done))
    store.copy("s", "t")
    assert len(deadlines) == 5
    assert (
        deadlines[0] < deadlines[1] < deadlines[2] < deadlines[3] == deadlines[4]
    )  # a repetition gets on with nothing


@pytest.mark.parametrize("body", [b"{}", b'{"done": false}', b'{"done": true}', b'{"done": true, "resource": {}}'])
def test_a_copy_that_says_nothing_is_an_error(opened: Opened, body: bytes) -> None:
    _, store = opened(Say(body=resource("s", b"")), *[Say(body=body)] * 3)
    with pytest.raises(TransportError):
        store.copy("s", "t")


def test_a_compose_names_sources_with_their_generations(opened: Opened) -> None:
    server, store = opened(Say(body=resource("t", b"abc", 9)))
    sources = [ObjectInfo(key="a/1", size_bytes=1, version="4"), ObjectInfo(key="b", size_bytes=2)]
    assert store.compose(sources, "t").version == "9"
    assert server.asked[0].target.startswith("/storage/v1/b/bucket/o/t/compose?")
    assert json.loads(server.asked[0].body)["sourceObjects"] == [
        {"name": "a/1", "objectPreconditions": {"ifGenerationMatch": "4"}},
        {"name": "b"},
    ]


def test_a_compose_of_another_size_is_an_error(opened: Opened) -> None:
    _, store = opened(Say(body=resource("t", b"four")))
    with pytest.raises(StoreError, match="3 bytes together, the object that was made has 4"):
        store.compose([ObjectInfo(key="a", size_bytes=3)], "t")


ERRORS = [
    (json_error(429, "rateLimitExceeded"), ThrottledError, "slow down", 3),
    (xml_error(429, "SlowDown"), ThrottledError, "slow down", 3),
    (json_error(403, "userRateLimitExceeded"), ThrottledError, "slow down", 3),
    (json_error(503, "backendError"), TransportError, "try again later", 3),
    (Say(status=502, body=b"<html>bad gateway</html>"), TransportError, "try again later", 3),
    (Say(status=408), TransportError, "try again later", 3),
    (json_error(409, "conflict"), TransportError, "try again later", 3),
    (json_error(403, "forbidden", "x does not have storage.objects.get"), PermissionDeniedError, "roles", 1),
    (xml_error(403, "AccessDenied"), PermissionDeniedError, "roles", 1),
    (json_error(401, "authError"), PermissionDeniedError, "access token", 1),
    (xml_error(400, "UserProjectMissing"), PermissionDeniedError, "user_project", 1),
    (
        json_error(400, "required", "Bucket is a requester pays bucket but no user project provided."),
        PermissionDeniedError,
        "user_project",
        1,
    ),
    (json_error(404, "notFound", "The specified bucket does not exist."), NotFoundError, "no bucket gs://bucket", 1),
    (xml_error(404, "NoSuchBucket"), NotFoundError, "no bucket gs://bucket", 1),
    (json_error(404, "notFound", "No such object: bucket/k"), NotFoundError, "no such object", 1),
    (Say(status=404, body=b"Not Found"), NotFoundError, "no such object; check bucket and key", 1),
    (Say(status=308, headers=(("location", "https://elsewhere/x"),)), StoreError, "https://elsewhere/x", 1),
    (Say(status=307, headers=(("location", "https://elsewhere/x"),)), StoreError, "endpoint", 1),
    (json_error(501, "notImplemented"), UnsupportedError, "does not support", 1),
    (json_error(507, "insufficientStorage"), StoreError, "no room left", 1),
    (json_error(400, "invalid", "a\x00b" * 200), StoreError, "its own message", 1),
    (Say(status=400, body=b'{"error": "a text"}'), StoreError, "refused", 1),
    (Say(status=400, body=b'{"error": {"errors": []}}'), StoreError, "refused", 1),
]


@pytest.mark.parametrize(("answer", "kind", "said", "attempts"), ERRORS)
def test_an_error_is_named(opened: Opened, answer: Say, kind: type[StoreError], said: str, attempts: int) -> None:
    server, store = opened(*[answer] * 3)
    with pytest.raises(kind, match=said) as caught:
        store.head("k")
    assert type(caught.value) is kind
    assert caught.value.status == answer.status
    assert len(server.asked) == attempts
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 700


def test_a_wait_that_the_server_asks_for_is_kept(opened: Opened) -> None:
    slow = Say(status=429, headers=(("retry-after", "1"),))
    server, store = opened(
        slow, Say(body=resource("k", b"")), retry=RetryConfig(initial_s=0.0, maximum_s=0.01, deadline_s=60)
    )
    assert store.head("k").size_bytes == 0
    assert len(server.asked) == 2


@pytest.mark.parametrize("answer", [xml_error(412, "PreconditionFailed"), Say(status=304)])
def test_a_generation_that_is_gone_says_so(opened: Opened, answer: Say) -> None:
    _, store = opened(answer)
    with pytest.raises(StoreError, match="no longer has the version 5"):
        store.submit_read(Read(key="k", size_bytes=4, version="5")).result()


def test_a_condition_says_what_it_was(opened: Opened) -> None:
    _, store = opened(xml_error(412, "PreconditionFailed"))
    with pytest.raises(PreconditionFailedError, match="version 5 that if_version") as caught:
        store.write("k", b"", if_version="5")
    assert (caught.value.status, caught.value.code) == (412, "PreconditionFailed")


def test_a_version_that_is_no_generation_is_refused(opened: Opened) -> None:
    server, store = opened()
    for call in (
        lambda: store.read("k", version='"an-etag"'),
        lambda: store.write("k", b"", if_version="x1"),
        lambda: store.delete("k", if_version="1.5"),
    ):
        with pytest.raises(ConfigError, match="generation"):
            call()
    assert server.asked == []
