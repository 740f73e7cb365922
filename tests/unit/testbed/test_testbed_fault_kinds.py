"""What each kind of fault does to one request, without sockets: the driver is the connection and the client."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from asgi_driver import GCS_PORT, Driver

BODY = bytes(range(256)) * 20


@pytest.fixture
def driver() -> Driver:
    driven = Driver(log_requests=100)
    driven.put("k", BODY)
    return driven


@pytest.mark.parametrize(
    ("status", "code"),
    [(500, "InternalError"), (503, "SlowDown"), (404, "NoSuchKey"), (403, "AccessDenied"), (599, "InternalError")],
)
def test_an_error_has_the_providers_document_and_no_effect(driver: Driver, status: int, code: str) -> None:
    driver.set_faults({"kind": "error", "status": status, "retry_after_s": 7})
    answer = driver.ask("PUT", "/data/new", body=b"x")
    assert (answer.status, answer.code, answer.headers["retry-after"]) == (status, code, "7")
    assert driver.ask("HEAD", "/data/k").body == b""
    driver.set_faults()
    assert driver.ask("GET", "/data/new").status == 404


def test_an_error_has_the_code_and_text_of_its_rule(driver: Driver) -> None:
    driver.set_faults({"kind": "error", "status": 500, "code": "Custom.Code", "message": "a < b & c"})
    answer = driver.ask("GET", "/data/k")
    assert (answer.status, answer.code, answer.xml.findtext("Message")) == (500, "Custom.Code", "a < b & c")
    assert "retry-after" not in answer.headers


@pytest.mark.parametrize(("status", "reason"), [(429, "rateLimitExceeded"), (503, "backendError")])
def test_an_error_of_gcs_is_json_or_xml_as_the_api_has_it(driver: Driver, status: int, reason: str) -> None:
    driver.set_faults({"kind": "error", "status": status, "dialect": "gcs"})
    found = json.loads(driver.ask("GET", "/storage/v1/b/data/o/k", port=GCS_PORT).body)["error"]
    assert (found["code"], found["errors"][0]["reason"]) == (status, reason)
    answer = driver.ask("GET", "/data/k", port=GCS_PORT)
    assert answer.status == status
    assert answer.code
    assert driver.ask("GET", "/data/k").body == BODY


def test_a_reset_before_the_answer_leaves_nothing_done(driver: Driver) -> None:
    driver.set_faults({"kind": "reset", "times": 2})
    assert (driver.ask("GET", "/data/k").status, driver.ask("PUT", "/data/new", body=b"x").ending) == (0, "reset")
    assert driver.ask("GET", "/data/new").status == 404


def test_a_lost_response_leaves_all_done(driver: Driver) -> None:
    driver.set_faults({"kind": "lost_response"})
    answer = driver.ask("PUT", "/data/new", body=b"x")
    assert (answer.status, answer.ending) == (0, "reset")
    assert driver.ask("GET", "/data/new").body == b"x"
    assert driver.ask("DELETE", "/data/new").ending == "reset"
    assert driver.ask("GET", "/data/new").status == 404


@pytest.mark.parametrize("pieces", [[b"abc", b"def"], [b"abcdef"], [b"a"]])
def test_an_upload_is_reset_inside_its_body(driver: Driver, pieces: list[bytes]) -> None:
    driver.set_faults({"kind": "reset_upload", "after_bytes": 4})
    answer = driver.ask("PUT", "/data/new", body=pieces)
    assert (answer.status, answer.ending) == (0, "reset")
    assert driver.ask("GET", "/data/new").status == 404
    assert driver.ask("POST", "/data/new", "uploads").ending == "reset"
    assert not driver.buckets.bucket("data").uploads


@pytest.mark.parametrize(("kind", "ending"), [("truncate", "closed"), ("reset", "reset")])
@pytest.mark.parametrize(
    ("place", "arrived"),
    [
        ({"after_bytes": 0}, 0),
        ({"after_bytes": 1000}, 1000),
        ({"after_fraction": 0.25}, 1280),
        ({"after_bytes": 10**9}, 5119),
    ],
)
def test_a_body_is_cut_at_its_place(
    driver: Driver, kind: str, ending: str, place: dict[str, Any], arrived: int
) -> None:
    driver.set_faults({"kind": kind, **place})
    answer = driver.ask("GET", "/data/k")
    assert (answer.status, answer.ending, answer.headers["content-length"]) == (200, ending, "5120")
    assert answer.body == BODY[:arrived]


def test_a_truncated_answer_is_half_of_it_by_default_also_of_bytes_and_of_ranges(driver: Driver) -> None:
    driver.set_faults({"kind": "truncate"})
    assert driver.ask("GET", "/data/k", headers={"range": "bytes=100-199"}).body == BODY[100:150]
    listing = driver.ask("GET", "/data", "list-type=2")
    assert len(listing.body) == int(listing.headers["content-length"]) // 2
    assert driver.ask("HEAD", "/data/k").ending == "closed"


def test_a_corrupt_body_differs_in_one_byte_at_a_drawn_place(driver: Driver) -> None:
    driver.set_faults({"kind": "corrupt"})
    places = set()
    for _ in range(20):
        answer = driver.ask("GET", "/data/k")
        assert (answer.status, answer.ending, len(answer.body)) == (200, "", len(BODY))
        changed = [at for at, (got, sent) in enumerate(zip(answer.body, BODY, strict=True)) if got != sent]
        assert len(changed) == 1
        places.add(changed[0])
    assert len(places) > 10
    assert driver.ask("GET", "/data", "list-type=2").xml.findtext("Contents/Key") == "k"


def test_a_corrupt_byte_can_have_a_place(driver: Driver) -> None:
    driver.set_faults({"kind": "corrupt", "after_bytes": 7})
    answer = driver.ask("GET", "/data/k", headers={"range": "bytes=100-199"})
    assert answer.body[7] != BODY[107]
    assert answer.body[:7] + answer.body[8:] == BODY[100:107] + BODY[108:200]


@pytest.mark.parametrize(
    "rule",
    [
        {"kind": "delay", "seconds": 0.05},
        {"kind": "stall", "seconds": 0.05},
        {"kind": "stall", "seconds": 0.05, "after_bytes": 100},
        {"kind": "drip", "bytes_per_s": len(BODY) / 0.05},
    ],
)
def test_what_is_only_slow_comes_whole_and_no_earlier(driver: Driver, rule: dict[str, Any]) -> None:
    driver.set_faults(rule)
    began_s = time.monotonic()
    assert driver.ask("GET", "/data/k").body == BODY
    assert time.monotonic() - began_s >= 0.045
    assert driver.application.counters.bytes_out == len(BODY)


@pytest.mark.parametrize(("place", "arrived"), [({}, None), ({"after_bytes": 100}, 100)])
def test_a_stall_lasts_until_the_client_goes_away(driver: Driver, place: dict[str, Any], arrived: int | None) -> None:
    driver.set_faults({"kind": "stall", **place})
    answer = driver.ask("GET", "/data/k", leaves=True)
    assert (answer.status, answer.body) == ((0, b"") if arrived is None else (200, BODY[:arrived]))
    assert driver.application.counters.disconnected == 1


def test_an_empty_body_is_struck_at_its_headers(driver: Driver) -> None:
    driver.put("empty")
    driver.set_faults({"kind": "truncate"})
    answer = driver.ask("GET", "/data/empty")
    assert (answer.status, answer.body, answer.ending) == (200, b"", "closed")
    driver.set_faults({"kind": "corrupt"})
    assert driver.ask("GET", "/data/empty").body == b""


def keys(driver: Driver, query: str) -> list[str]:
    return [found.text or "" for found in driver.ask("GET", "/data", query).xml.findall("Contents/Key")]


def pages(driver: Driver, query: str, limit: int = 10) -> list[list[str]]:
    """Lists page by page as a client does; stops after `limit` pages."""
    found, token = [], ""
    for _ in range(limit):
        answer = driver.ask("GET", "/data", query + token).xml
        found.append([name.text or "" for name in answer.iterfind(".//Contents/Key")])
        found[-1] += [name.text or "" for name in answer.iterfind("CommonPrefixes/Prefix")]
        following = answer.findtext("NextContinuationToken")
        if following is None:
            return found
        token = f"&continuation-token={following}"
    return found


@pytest.fixture
def names(driver: Driver) -> list[str]:
    driver.ask("DELETE", "/data/k")
    found = [f"n{number}" for number in range(7)]
    for name in found:
        driver.put(name)
    return found


def test_a_stale_listing_leaves_out_what_was_written_just_now(driver: Driver, names: list[str]) -> None:
    for name in names[:3]:
        driver.buckets.bucket("data").objects[name].created_s -= 100
    driver.set_faults({"kind": "stale_listing", "seconds": 50})
    assert keys(driver, "list-type=2") == names[:3]
    assert pages(driver, "list-type=2&max-keys=2") == [names[:2], names[2:3]]
    assert keys(driver, "list-type=2&prefix=n2") == ["n2"]
    assert driver.ask("GET", "/data/n5").status == 200


@pytest.mark.parametrize("start", ["", "&start-after=n0"])
def test_a_page_is_repeated(driver: Driver, names: list[str], start: str) -> None:
    driver.set_faults({"kind": "repeat_page", "times": 1})
    listed = names[1:] if start else names
    wanted = [listed[:2], listed[:2], *(listed[at : at + 2] for at in range(2, len(listed), 2))]
    assert pages(driver, "list-type=2&max-keys=2" + start) == wanted


def test_a_page_of_common_prefixes_is_repeated_and_markers_of_version_1_do(driver: Driver, names: list[str]) -> None:
    for name in ("a/1", "a/2", "b/1", "c/1", "c/2"):
        driver.put(name)
    driver.set_faults({"kind": "repeat_page", "times": 1})
    assert pages(driver, "list-type=2&max-keys=2&delimiter=/")[:3] == [["a/", "b/"], ["a/", "b/"], ["n0", "c/"]]
    driver.set_faults({"kind": "repeat_page"})
    assert keys(driver, "max-keys=2&marker=n3") == ["n2", "n3"]
    assert keys(driver, "max-keys=2&marker=n0") == ["c/2", "n0"]
    assert keys(driver, "max-keys=2&marker=a/1") == ["a/1", "a/2"]


def test_a_page_is_left_out(driver: Driver, names: list[str]) -> None:
    driver.set_faults({"kind": "skip_page", "nth": 2})
    assert pages(driver, "list-type=2&max-keys=2") == [names[:2], names[4:6], names[6:]]
    driver.set_faults({"kind": "skip_page"})
    assert pages(driver, "list-type=2") == [[]]


@pytest.mark.parametrize("start", ["", "&start-after=n0"])
def test_a_page_comes_without_entries_and_loses_none(driver: Driver, names: list[str], start: str) -> None:
    listed = names[1:] if start else names
    for nth, wanted in [(1, [[], listed[:4], listed[4:]]), (2, [listed[:4], [], listed[4:]])]:
        driver.set_faults({"kind": "empty_page", "nth": nth})
        assert pages(driver, "list-type=2&max-keys=4" + start) == wanted
    driver.set_faults({"kind": "empty_page", "nth": 1})
    page = json.loads(driver.ask("GET", "/storage/v1/b/data/o", port=GCS_PORT).body)
    assert page.keys() == {"kind", "nextPageToken"}
    rest = driver.ask("GET", "/storage/v1/b/data/o", f"pageToken={page['nextPageToken']}", port=GCS_PORT)
    assert [item["name"] for item in json.loads(rest.body)["items"]] == names


def test_an_error_comes_after_a_200_and_nothing_is_done(driver: Driver) -> None:
    upload = driver.ask("POST", "/data/u", "uploads").xml.findtext("UploadId")
    etag = driver.ask("PUT", "/data/u", f"partNumber=1&uploadId={upload}", body=b"x").headers["etag"]
    document = f"<Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part>"
    completion = f"<CompleteMultipartUpload>{document}</CompleteMultipartUpload>".encode()
    source = {"x-amz-copy-source": "data/k"}
    asked = [
        ("POST", "/data/u", f"uploadId={upload}", {}, completion),
        ("PUT", "/data/copy", "", source, b""),
        ("PUT", "/data/u", f"partNumber=2&uploadId={upload}", source, b""),
    ]
    driver.set_faults({"kind": "error_after_200"})
    for method, path, query, headers, body in asked:
        answer = driver.ask(method, path, query, headers=headers, body=body)
        assert (answer.status, answer.xml.tag, answer.code) == (200, "Error", "InternalError")
    driver.set_faults({"kind": "error_after_200", "code": "SlowDown", "message": "later"})
    answer = driver.ask("PUT", "/data/copy", headers=source)
    assert (answer.status, answer.code, answer.xml.findtext("Message")) == (200, "SlowDown", "later")
    assert driver.ask("PUT", "/data/other", body=b"x").headers["etag"]
    assert driver.ask("PUT", "/data/c", headers={"x-goog-copy-source": "data/k"}, port=GCS_PORT).code != "SlowDown"
    assert list(driver.buckets.bucket("data").uploads[upload or ""].parts) == [1]
    assert driver.ask("HEAD", "/data/copy").status == 404
    driver.set_faults()
    for method, path, query, headers, body in asked[::-1]:
        answer = driver.ask(method, path, query, headers=headers, body=body)
        assert (answer.status, answer.xml.tag != "Error") == (200, True)


@pytest.mark.parametrize("path", ["/storage/v1/b/data/o", "/data"])
def test_listings_of_gcs_are_struck_too(driver: Driver, names: list[str], path: str) -> None:
    driver.set_faults({"kind": "stale_listing", "seconds": 50, "dialect": "gcs"})
    answer = driver.ask("GET", path, port=GCS_PORT)
    assert answer.status == 200
    assert b"n0" not in answer.body
    assert driver.application.counters.faults == {"stale_listing": 1}


def test_what_struck_is_counted_and_shown_and_a_new_plan_begins_anew(driver: Driver) -> None:
    driver.set_faults({"kind": "error", "status": 500, "key": "k"})
    for _ in range(2):
        driver.ask("GET", "/data/k")
    driver.ask("GET", "/data/other")
    assert driver.application.counters.snapshot()["faults"] == {"error": 2}
    shown = {"kind": "error", "status": 500, "key": "k", "matched": 2, "injected": 2}
    assert json.loads(driver.ask_admin("GET", "faults").body) == {"seed": 0, "rules": [shown]}
    answer = driver.ask_admin("PUT", "faults", body=b'[{"kind": "reset", "nth": 2}]')
    assert json.loads(answer.body)["rules"] == [{"kind": "reset", "nth": 2, "matched": 0, "injected": 0}]
    assert driver.ask("GET", "/data/k").body == BODY
    assert driver.ask("GET", "/data/k").ending == "reset"


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("faults", b"not JSON", ["faults", "Expecting value"]),
        ("faults", b'"flaky"', ["str", "list of rules"]),
        ("faults", b'[{"kind": "reset", "nth": 0}]', ["rule 1", "nth is 0", "1 or more"]),
        ("faults", b"\xff", ["faults", "decode"]),
        ("faults", b" " * 70_000, ["more than 65536 bytes"]),
        ("network", b"[]", ["network", "list", "mapping"]),
    ],
)
def test_a_wrong_body_is_refused_with_its_reason_and_changes_nothing(
    driver: Driver, path: str, body: bytes, words: list[str]
) -> None:
    driver.set_faults({"kind": "reset", "key": "other"})
    answer = driver.ask_admin("PUT", f"{path}", body=body)
    assert answer.status == 400
    for word in words:
        assert word in json.loads(answer.body)["error"]
    assert driver.application.faults.faults.rules[0].key == "other"
