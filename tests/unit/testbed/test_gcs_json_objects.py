"""The JSON API's rules for objects: resources, downloads, conditions, metadata, copies, composition, errors."""

from __future__ import annotations

import base64
import gzip
import hashlib
import random
from typing import Any

import google_crc32c
import pytest
from asgi_driver import GCS_PORT
from gcs_json_kit import OBJECTS, UPLOADS, JsonDriver, document_of, reason_of
from hypothesis import given
from hypothesis import strategies as st

ODD_KEYS = [
    "a//b",
    "./x",
    "../x",
    "a/../../b",
    "d/",
    "/",
    "//",
    "+",
    "a b",
    "%2F",
    "%",
    "é\U0001f600",
    "?",
    "#",
    "o",
    "b",
]


def crc32c(body: bytes) -> str:
    return base64.b64encode(google_crc32c.value(body).to_bytes(4, "big")).decode()


def md5(body: bytes) -> str:
    return base64.b64encode(hashlib.md5(body).digest()).decode()


@pytest.fixture
def driver() -> JsonDriver:
    return JsonDriver()


@pytest.mark.parametrize("key", [*ODD_KEYS, "é" * 512])
def test_names_are_byte_exact(driver: JsonDriver, key: str) -> None:
    driver.save(key, key.encode())
    assert driver.load(key).body == key.encode()
    assert driver.call("GET", driver.of(key, root="/download/storage/v1"), {"alt": "media"}).body == key.encode()
    assert document_of(driver.call("GET", driver.of(key)))["name"] == key
    assert driver.names() == [key]
    assert driver.call("DELETE", driver.of(key)).status == 204
    assert driver.call("GET", driver.of(key)).status == 404


@pytest.mark.parametrize("key", ["é" * 513, "a\rb", "a\nb", ".", "..", ".well-known/acme-challenge/x"])
def test_names_that_are_none(driver: JsonDriver, key: str) -> None:
    answer = driver.call("POST", UPLOADS, {"uploadType": "media", "name": key})
    assert (answer.status, reason_of(answer)) == (400, "invalid")
    driver.save("source")
    assert driver.call("POST", driver.of("source", f"/copyTo{driver.of(key)[11:]}")).status == 400


def test_a_resource_says_what_the_object_is(driver: JsonDriver) -> None:
    body = b"content"
    resource = driver.save("a/b", body)
    generation = resource["generation"]
    assert resource | {"timeCreated": "", "updated": "", "timeStorageClassUpdated": "", "timeFinalized": ""} == {
        "kind": "storage#object",
        "id": f"data/a/b/{generation}",
        "selfLink": "http://127.0.0.1:9000/storage/v1/b/data/o/a%2Fb",
        "mediaLink": f"http://127.0.0.1:9000/download/storage/v1/b/data/o/a%2Fb?generation={generation}&alt=media",
        "name": "a/b",
        "bucket": "data",
        "generation": generation,
        "metageneration": "1",
        "storageClass": "STANDARD",
        "size": "7",
        "crc32c": crc32c(body),
        "md5Hash": md5(body),
        "etag": resource["etag"],
        "timeCreated": "",
        "updated": "",
        "timeStorageClassUpdated": "",
        "timeFinalized": "",
    }
    assert document_of(driver.call("GET", driver.of("a/b"))) == resource
    assert resource["timeCreated"].endswith("Z")
    assert len(resource["timeCreated"]) == 24
    assert int(driver.save("a/b")["generation"]) > int(generation)


def test_a_download_says_what_it_is(driver: JsonDriver) -> None:
    resource = driver.save("k", b"0123456789", contentEncoding="identity")
    whole = driver.load("k")
    assert (whole.status, whole.body) == (200, b"0123456789")
    assert whole.headers["x-goog-hash"] == f"crc32c={crc32c(whole.body)},md5={md5(whole.body)}"
    assert whole.headers["x-goog-generation"] == resource["generation"]
    assert whole.headers["x-goog-stored-content-length"] == "10"
    assert whole.headers["etag"] == resource["etag"]
    part = driver.load("k", range="bytes=2-4")
    assert (part.status, part.body, part.headers["content-range"]) == (206, b"234", "bytes 2-4/10")
    assert driver.load("k", range="bytes=-3").body == b"789"
    beyond = driver.load("k", range="bytes=10-")
    assert (beyond.status, beyond.body) == (416, b"Request range not satisfiable")
    assert beyond.headers["content-range"] == "bytes */10"
    head = driver.call("HEAD", driver.of("k"), {"alt": "media"})
    assert (head.status, head.body, head.headers["content-length"]) == (200, b"", "10")
    missing = driver.load("none")
    assert (missing.status, missing.body) == (404, b"No such object: data/none")
    assert missing.headers["content-type"].startswith("text/html")


def test_what_another_api_wrote_is_seen(driver: JsonDriver) -> None:
    driver.put("from-s3", b"abc", content_type="text/x")
    resource = document_of(driver.call("GET", driver.of("from-s3")))
    assert (resource["crc32c"], resource["md5Hash"], resource["contentType"]) == (crc32c(b"abc"), md5(b"abc"), "text/x")
    driver.save("from-gcs", b"def")
    assert driver.ask("GET", "/data/from-gcs").body == b"def"
    assert driver.ask("HEAD", "/data/from-gcs").headers["etag"] == f'"{hashlib.md5(b"def").hexdigest()}"'


def test_gzip_is_decompressed_for_who_does_not_accept_it(driver: JsonDriver) -> None:
    packed = gzip.compress(b"text" * 100)
    driver.save("z", packed, contentEncoding="gzip")
    stored = driver.load("z", accept_encoding="gzip")
    assert (stored.body, stored.headers["content-encoding"]) == (packed, "gzip")
    served = driver.load("z", range="bytes=0-3")
    assert (served.status, served.body) == (200, b"text" * 100)
    assert "content-encoding" not in served.headers
    assert served.headers["x-goog-stored-content-encoding"] == "gzip"
    driver.save("broken", b"no gzip", contentEncoding="gzip")
    assert driver.load("broken").body == b"no gzip"


def conditions(resource: dict[str, Any], prefix: str = "if") -> list[tuple[str, str, bool]]:
    """Returns conditions by parameter, value and whether they hold of an object."""
    generation, metageneration = resource["generation"], resource["metageneration"]
    return [
        (f"{prefix}GenerationMatch", generation, True),
        (f"{prefix}GenerationMatch", "0", False),
        (f"{prefix}GenerationMatch", "1", False),
        (f"{prefix}GenerationNotMatch", generation, False),
        (f"{prefix}GenerationNotMatch", "1", True),
        (f"{prefix}MetagenerationMatch", metageneration, True),
        (f"{prefix}MetagenerationMatch", "9", False),
        (f"{prefix}MetagenerationNotMatch", metageneration, False),
        (f"{prefix}MetagenerationNotMatch", "9", True),
    ]


def test_conditions_on_reading(driver: JsonDriver) -> None:
    for name, value, holds in conditions(driver.save("k", b"1")):
        refused = 304 if "NotMatch" in name else 412
        for query in ({"alt": "media"}, {}):
            assert driver.call("GET", driver.of("k"), {name: value, **query}).status == (200 if holds else refused)
    for name in ("ifGenerationMatch", "ifSourceGenerationMatch"):
        wrong = driver.call("POST", driver.of("k", "/copyTo/b/data/o/c"), {name: "x"})
        assert (wrong.status, reason_of(wrong)) == (400, "invalidParameter")


@pytest.mark.parametrize("kind", ["media", "multipart", "resumable", "patch", "delete", "copy", "compose"])
def test_conditions_on_writing(driver: JsonDriver, kind: str) -> None:
    driver.save("source", b"s")
    for name, value, holds in conditions(driver.save("k", b"1")):
        current = driver.save("k", b"1")
        value = current["generation"] if value not in ("0", "1", "9") and "Generation" in name else value
        if "Metageneration" in name and value != "9":
            value = current["metageneration"]
        answer = write(driver, kind, "k", {name: value})
        refused = 304 if "NotMatch" in name else 412
        assert answer in (200, 204) if holds else answer == refused, (name, value)
        after = document_of(driver.call("GET", driver.of("k")))
        if not holds:
            assert after == current


def write(driver: JsonDriver, kind: str, key: str, query: dict[str, str]) -> int:
    """Writes over or changes an object; returns the status."""
    match kind:
        case "media":
            return driver.call("POST", UPLOADS, {"uploadType": "media", "name": key, **query}, body=b"2").status
        case "multipart":
            body = b'--x\r\n\r\n{"name": "%s"}\r\n--x\r\n\r\n2\r\n--x--' % key.encode()
            headers = {"content-type": "multipart/related; boundary=x"}
            return driver.call("POST", UPLOADS, {"uploadType": "multipart", **query}, headers=headers, body=body).status
        case "resumable":
            opened = driver.call("POST", UPLOADS, {"uploadType": "resumable", "name": key, **query})
            return driver.send(opened.headers["location"][21:], b"2").status if opened.status == 200 else opened.status
        case "patch":
            return driver.call("PATCH", driver.of(key), query, document={"metadata": {"a": "b"}}).status
        case "delete":
            return driver.call("DELETE", driver.of(key), query).status
        case "copy":
            return driver.call("POST", driver.of("source", f"/rewriteTo/b/data/o/{key}"), query).status
    sources = {"sourceObjects": [{"name": "source"}]}
    return driver.call("POST", driver.of(key, "/compose"), query, document=sources).status


def test_a_deleted_object_meets_no_write_condition_but_absence(driver: JsonDriver) -> None:
    for name, value, status in [
        ("ifGenerationMatch", "5", 412),
        ("ifGenerationNotMatch", "0", 304),
        ("ifMetagenerationMatch", "1", 412),
        ("ifGenerationMatch", "0", 200),
    ]:
        assert write(driver, "media", "new", {name: value}) == status
    assert driver.call("DELETE", driver.of("none"), {"ifGenerationMatch": "5"}).status == 404


def test_only_the_newest_generation_exists(driver: JsonDriver) -> None:
    old, new = driver.save("k", b"1"), driver.save("k", b"2")
    for generation, status in [(old["generation"], 404), (new["generation"], 200)]:
        assert driver.call("GET", driver.of("k"), {"generation": generation}).status == status
        assert driver.call("GET", driver.of("k"), {"alt": "media", "generation": generation}).status == status
    assert driver.call("DELETE", driver.of("k"), {"generation": old["generation"]}).status == 404
    copy = driver.of("k", "/rewriteTo/b/data/o/c")
    assert driver.call("POST", copy, {"sourceGeneration": old["generation"]}).status == 404


def test_etags_as_validators(driver: JsonDriver) -> None:
    etag = driver.save("k", b"1")["etag"]
    assert driver.load("k", if_none_match=f'"{etag}"').status == 304
    assert driver.load("k", if_match="CAE=").status == 412
    assert driver.load("k", if_match=etag).status == 200
    changed = document_of(driver.call("PATCH", driver.of("k"), document={"contentType": "a/b"}))
    assert changed["etag"] != etag


def test_patch_merges_and_update_replaces(driver: JsonDriver) -> None:
    driver.save("k", b"1")
    first = {"contentType": "a/b", "cacheControl": "no-cache", "metadata": {"x": "1", "y": "ü"}}
    patched = document_of(driver.call("PATCH", driver.of("k"), document=first))
    assert {name: patched[name] for name in first} == first
    assert patched["metageneration"] == "2"
    second = {"cacheControl": None, "metadata": {"x": None, "z": "3"}}
    merged = document_of(driver.call("PATCH", driver.of("k"), document=second))
    assert (merged["contentType"], merged["metadata"]) == ("a/b", {"y": "ü", "z": "3"})
    assert "cacheControl" not in merged
    replaced = document_of(driver.call("PUT", driver.of("k"), document={"metadata": {"only": "this"}}))
    assert (replaced["metadata"], replaced["metageneration"]) == ({"only": "this"}, "4")
    assert "contentType" not in replaced
    assert replaced["generation"] == patched["generation"]
    assert "metadata" not in document_of(driver.call("PATCH", driver.of("k"), document={"metadata": None}))
    for wrong in ({"metadata": {"a": 1}}, {"contentType": "a\r\nX: y"}, {"metadata": {"a": "x" * 9000}}, [1]):
        assert driver.call("PATCH", driver.of("k"), document=wrong).status == 400


def test_copies_keep_or_override_metadata(driver: JsonDriver) -> None:
    driver.save("k", b"abc")
    driver.call("PATCH", driver.of("k"), document={"contentType": "a/b", "metadata": {"x": "1"}})
    rewritten = document_of(driver.call("POST", driver.of("k", "/rewriteTo/b/data/o/r")))
    assert (rewritten["kind"], rewritten["done"]) == ("storage#rewriteResponse", True)
    assert (rewritten["totalBytesRewritten"], rewritten["objectSize"]) == ("3", "3")
    assert (rewritten["resource"]["contentType"], rewritten["resource"]["metadata"]) == ("a/b", {"x": "1"})
    given = {"metadata": {"y": "2"}, "storageClass": "COLDLINE"}
    copied = document_of(driver.call("POST", driver.of("k", "/copyTo/b/data/o/c%2Fd"), document=given))
    assert (copied["name"], copied["metadata"], copied["storageClass"]) == ("c/d", {"y": "2"}, "COLDLINE")
    assert copied["md5Hash"] == md5(b"abc")
    assert driver.load("c/d").headers["x-goog-storage-class"] == "COLDLINE"
    source = document_of(driver.call("GET", driver.of("k")))
    for name, value, holds in conditions(source, "ifSource"):
        status = driver.call("POST", driver.of("k", "/copyTo/b/data/o/c"), {name: value}).status
        assert status == (200 if holds else 304 if "NotMatch" in name else 412), name
    assert driver.call("POST", driver.of("k", "/copyTo/b/none/o/c")).status == 404


def test_a_move_is_a_rename(driver: JsonDriver) -> None:
    driver.save("from/x", b"abc")
    assert document_of(driver.call("POST", driver.of("from/x", "/moveTo/o/to%2Fx")))["name"] == "to/x"
    assert driver.names() == ["to/x"]
    assert driver.call("POST", driver.of("from/x", "/moveTo/o/y")).status == 404


def test_composition(driver: JsonDriver) -> None:
    for index in range(3):
        driver.save(f"p{index}", bytes([65 + index]) * 5)
    sources = [{"name": f"p{index}"} for index in range(3)]
    whole = b"AAAAABBBBBCCCCC"
    destination = {"contentType": "a/b", "crc32c": crc32c(b"of what it replaces")}
    path = driver.of("c", "/compose")
    composed = document_of(driver.call("POST", path, document={"sourceObjects": sources, "destination": destination}))
    assert (composed["componentCount"], composed["size"], composed["crc32c"]) == (3, "15", crc32c(whole))
    assert composed["contentType"] == "a/b"
    assert "md5Hash" not in composed
    assert driver.load("c").body == whole
    assert "md5=" not in driver.load("c").headers["x-goog-hash"]
    assert driver.ask("HEAD", "/data/c").headers["etag"].endswith('-3"')
    again = {"sourceObjects": [{"name": "c"}, {"name": "p0"}], "deleteSourceObjects": True}
    assert document_of(driver.call("POST", path, document=again))["componentCount"] == 4
    assert driver.names() == ["c", "p1", "p2"]
    before = driver.call("GET", driver.of("c")).body
    generation = document_of(driver.call("GET", driver.of("p1")))["generation"]
    for wrong, status in [
        ({"sourceObjects": []}, 400),
        ({"sourceObjects": sources * 11}, 400),
        ({"sourceObjects": [{"name": "none"}]}, 404),
        ({"sourceObjects": [{"name": "p1", "generation": 5}]}, 404),
        ({"sourceObjects": [{"name": "p1", "objectPreconditions": {"ifGenerationMatch": 5}}]}, 412),
        ({"sourceObjects": [{"name": "p1", "objectPreconditions": "5"}]}, 400),
        ({"sourceObjects": [{}]}, 400),
    ]:
        assert driver.call("POST", path, document=wrong).status == status, wrong
    assert driver.call("GET", driver.of("c")).body == before
    fine = {"sourceObjects": [{"name": "p1", "objectPreconditions": {"ifGenerationMatch": int(generation)}}] * 32}
    assert document_of(driver.call("POST", path, document=fine))["componentCount"] == 32


def test_errors_have_gcss_document(driver: JsonDriver) -> None:
    driver.save("k")
    for method, path, query, status, reason in [
        ("GET", driver.of("none"), {}, 404, "notFound"),
        ("GET", "/storage/v1/b/none", {}, 404, "notFound"),
        ("GET", "/storage/v1/b/none/o", {}, 404, "notFound"),
        ("DELETE", "/storage/v1/b/data", {}, 409, "conflict"),
        ("POST", UPLOADS, {"uploadType": "media"}, 400, "required"),
        ("GET", OBJECTS, {"maxResults": "x"}, 400, "invalid"),
        ("GET", OBJECTS, {"pageToken": "*"}, 400, "invalidParameter"),
        ("GET", OBJECTS, {"fields": "items(name"}, 400, "invalidParameter"),
        ("GET", OBJECTS, {"softDeleted": "true"}, 501, "notImplemented"),
        ("GET", "/storage/v1/b/data/notificationConfigs", {}, 501, "notImplemented"),
        ("GET", "/storage/v1/b/data/o/a/b", {}, 501, "notImplemented"),
        ("GET", "/storage/v1/b/data/o/%ff", {}, 501, "notImplemented"),
        ("POST", UPLOADS, {"uploadType": "media", "name": "k", "ifGenerationMatch": "0"}, 412, "conditionNotMet"),
    ]:
        answer = driver.call(method, path, query)
        assert (answer.status, reason_of(answer)) == (status, reason), path
        assert answer.headers["content-type"].startswith("application/json")
    assert driver.call("POST", driver.of("c", "/compose"), body=b"{").status == 400


def test_errors_that_are_not_the_models(driver: JsonDriver) -> None:
    dialect = driver.application.dialect(("127.0.0.1", GCS_PORT))
    assert dialect.throttled_status == 429
    asked: list[Any] = []
    original = dialect.identify
    dialect.identify = lambda request: (asked.append(request), original(request))[1]  # type: ignore[method-assign]
    driver.call("GET", OBJECTS)
    for status, reason in [
        (429, "rateLimitExceeded"),
        (503, "backendError"),
        (500, "internalError"),
        (403, "forbidden"),
    ]:
        response = dialect.error(asked[0], status=status)
        assert isinstance(response.body, bytes)
        assert (response.status, reason.encode() in response.body) == (status, True)
    coded = dialect.error(asked[0], status=403, code="rateLimitExceeded", message="slow")
    assert isinstance(coded.body, bytes)
    assert b'"reason": "rateLimitExceeded"' in coded.body


def test_buckets(driver: JsonDriver) -> None:
    made = document_of(driver.call("POST", "/storage/v1/b", {"project": "p"}, document={"name": "other"}))
    assert (made["kind"], made["name"], made["metageneration"]) == ("storage#bucket", "other", "1")
    assert driver.call("POST", "/storage/v1/b", document={"name": "other"}).status == 409
    assert driver.call("POST", "/storage/v1/b", document={"name": "No"}).status == 400
    assert driver.call("POST", "/storage/v1/b", document={}).status == 400
    assert driver.call("POST", "/storage/v1/b", document={"name": "v", "versioning": {"enabled": True}}).status == 501
    listed = document_of(driver.call("GET", "/storage/v1/b", {"project": "p", "maxResults": "1"}))
    assert [item["name"] for item in listed["items"]] == ["data"]
    rest = document_of(driver.call("GET", "/storage/v1/b", {"pageToken": listed["nextPageToken"]}))
    assert [item["name"] for item in rest["items"]] == ["other"]
    path = "/storage/v1/b/other"
    assert document_of(driver.call("PATCH", path, document={"labels": {"a": "b"}}))["name"] == "other"
    assert driver.call("PATCH", path, document={"retentionPolicy": {"retentionPeriod": "9"}}).status == 501
    assert driver.call("GET", path, {"ifMetagenerationMatch": "2"}).status == 412
    assert document_of(driver.call("GET", path + "/storageLayout"))["hierarchicalNamespace"] == {"enabled": False}
    assert document_of(driver.call("GET", path + "/iam"))["kind"] == "storage#policy"
    asked = "permissions=storage.objects.get&permissions=storage.objects.create"
    granted = driver.ask("GET", path + "/iam/testPermissions", asked, port=GCS_PORT)
    assert document_of(granted)["permissions"] == ["storage.objects.get", "storage.objects.create"]
    assert driver.call("DELETE", path).status == 204
    assert driver.call("GET", path).status == 404


@given(
    body=st.binary(max_size=40),
    range_header=st.none() | st.from_regex(r"\Abytes=[0-9]{0,2}-[0-9]{0,2}\Z"),
    query=st.sampled_from(
        ["alt=media", "alt=media&userProject=p", "generation={}&alt=media", "alt=media&ifGenerationMatch={}"]
    ),
    root=st.sampled_from(["/storage/v1", "/download/storage/v1"]),
)
def test_a_plain_download_is_the_ordinary_one(body: bytes, range_header: str | None, query: str, root: str) -> None:
    driver = JsonDriver()
    generation = driver.save("a b", body, contentEncoding="")["generation"]
    driver.call("PATCH", driver.of("a b"), document={"contentEncoding": None, "cacheControl": "private"})
    query = query.format(generation)
    headers = {"host": "127.0.0.1:9000", "user-agent": "x"} | ({"range": range_header} if range_header else {})
    ordinary = driver.ask("GET", driver.of("a b", root=root), query, headers=headers, port=GCS_PORT)
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    target = f"{driver.of('a b', root=root)}?{query}".encode()
    plain = driver.application.dialect(("127.0.0.1", GCS_PORT)).plain_get(target, raw)
    if ordinary.status == 416:
        assert plain is None
        return
    assert plain is not None
    status, *lines = plain.head.decode().splitlines()
    assert int(status.split()[1]) == ordinary.status
    assert sorted(line.split(": ", 1)[0] for line in lines) == sorted(set(ordinary.headers) - {"x-guploader-uploadid"})
    assert all(ordinary.headers[name] == value for name, value in (line.split(": ", 1) for line in lines))
    content = b"".join(bytes(piece) for piece in [body[plain.body.start : plain.body.stop]])
    assert content == ordinary.body
    assert (plain.operation.name, plain.operation.bucket, plain.operation.key) == (
        "get_object" if range_header is None else "get_object_range",
        "data",
        "a b",
    )


@pytest.mark.parametrize(
    ("target", "header"),
    [
        (b"/storage/v1/b/data/o/k", b"accept"),
        (b"/storage/v1/b/data/o/k?alt=json", b"accept"),
        (b"/storage/v1/b/data/o/k?alt=media&generation=1", b"accept"),
        (b"/storage/v1/b/data/o/k?alt=media&alt=json", b"accept"),
        (b"/storage/v1/b/data/o/none?alt=media", b"accept"),
        (b"/storage/v1/b/data/o?alt=media", b"accept"),
        (b"/storage/v1/b/data/o/z?alt=media", b"accept"),
        (b"/storage/v1/b/data/o/k?alt=media", b"if-none-match"),
    ],
)
def test_what_is_no_plain_download(driver: JsonDriver, target: bytes, header: bytes) -> None:
    driver.save("k", b"1")
    driver.save("z", b"1", contentEncoding="gzip")
    dialect = driver.application.dialect(("127.0.0.1", GCS_PORT))
    assert dialect.plain_get(b"/storage/v1/b/data/o/k?alt=media", [(b"accept", b"x")]) is not None
    assert dialect.plain_get(target, [(header, b"x")]) is None


def test_an_object_is_composed_onto_itself_with_what_is_known_of_it(driver: JsonDriver) -> None:
    known = driver.save("log", b"old,")
    driver.save("new", b"new")
    request = {"sourceObjects": [{"name": "log"}, {"name": "new"}], "destination": known}
    composed = document_of(driver.call("POST", driver.of("log", "/compose"), document=request))
    assert (composed["crc32c"], driver.load("log").body) == (crc32c(b"old,new"), b"old,new")
    again = {"sourceObjects": [{"name": "log"}, {"name": "new"}], "destination": composed}
    assert driver.call("POST", driver.of("log", "/compose"), document=again).status == 200
    assert driver.load("log").body == b"old,newnew"


def gzipped(*members: bytes) -> bytes:
    return b"".join(gzip.compress(member, mtime=0) for member in members)


@pytest.mark.parametrize(
    ("stored", "sent"),
    [
        (gzipped(b"one"), b"one"),
        (gzipped(b"one", b"", b"two" * 1000), b"one" + b"two" * 1000),
        (gzipped(b"one", b"two") + bytes(20), b"onetwo"),
        (gzipped(b"one") + b"no gzip", b"one"),
        (gzipped(b"one", b"two")[:-1], None),
        (gzipped(b"one")[:-8] + bytes(8) + gzipped(b"two"), None),
        (b"no gzip at all", None),
        (b"", None),
    ],
    ids=["one", "several", "zeros after", "more after", "cut", "wrong sum", "none", "empty"],
)
@pytest.mark.parametrize("path", ["/storage/v1/b/data/o/z?alt=media", "/data/z"])
def test_every_member_of_a_gzip_is_decompressed(
    driver: JsonDriver, path: str, stored: bytes, sent: bytes | None
) -> None:
    driver.save("z", stored, contentEncoding="gzip")
    path, _, query = path.partition("?")
    answer = driver.ask("GET", path, query, port=GCS_PORT)
    assert (answer.status, answer.body) == (200, stored if sent is None else sent)
    assert ("content-encoding" in answer.headers) == (sent is None)


def test_members_that_end_where_a_piece_does(driver: JsonDriver) -> None:
    first = gzip.compress(random.Random(5).randbytes((1 << 20) - 1000), compresslevel=0)
    filler = gzip.compress(b"x" * 100, compresslevel=0)
    stored = first + filler * 40  # The store's pieces of a MiB end inside a head, a body and a trailer.
    driver.save("z", stored, contentEncoding="gzip")
    assert driver.load("z").body == gzip.decompress(stored)
