"""The log of requests: what an entry says, how the ring drops, and how the admin route pages through it."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from asgi_driver import GCS_PORT, Driver

from buckettestbed.serving.log import PAGE_LIMIT, LogEntry, LoggedRequest, RequestLog


def logged(driver: Driver, query: str = "") -> list[LoggedRequest]:
    page = json.loads(driver.ask_admin("GET", "requests", query).body)
    return [LoggedRequest.from_mapping(found) for found in page["requests"]]


def test_each_request_is_logged_with_what_it_asked_and_got() -> None:
    driver = Driver(log_requests=10)
    before_s = time.time()
    driver.put("a b", b"x" * 1000)
    driver.ask("GET", "/data/a%20b", headers={"range": "bytes=10-19"})
    driver.ask("GET", "/data/missing")
    driver.ask("GET", "/data", "list-type=2&prefix=a")
    driver.ask("HEAD", "/data/a%20b", port=GCS_PORT)
    driver.ask("GET", "/data/a", "prefix=%ff")
    driver.ask_admin("GET", "counts")
    put, ranged, missing, listing, head, malformed = logged(driver)
    assert [found.number for found in (put, ranged, missing, listing, head, malformed)] == [1, 2, 3, 4, 5, 6]
    assert (put.operation, put.method, put.dialect, put.bucket, put.key) == ("put_object", "PUT", "s3", "data", "a b")
    assert (put.status, put.bytes_in, put.bytes_out, put.outcome, put.fault) == (200, 1000, 0, "whole", None)
    assert before_s <= put.arrived_s <= time.time()
    assert 0 <= (put.received_s or -1) <= (put.first_byte_s or -1) <= put.end_s
    assert (ranged.range_start, ranged.range_stop, ranged.status, ranged.bytes_out) == (10, 20, 206, 10)
    assert ranged.received_s is None
    assert (missing.operation, missing.key, missing.status) == ("get_object", "missing", 404)
    assert missing.bytes_out > 0
    assert (listing.operation, listing.key) == ("list_objects_v2", "a")
    assert (head.dialect, head.operation, head.status, head.bytes_out) == ("gcs", "head_object", 200, 0)
    assert (malformed.operation, malformed.status) == ("unknown", 400)


@pytest.mark.parametrize(
    ("header", "asked"),
    [
        (b"", (None, None)),
        (b"bytes=0-0", (0, 1)),
        (b"bytes=5-", (5, None)),
        (b"bytes=-7", (-7, None)),
        (b"Bytes = 1 - 3", (1, 4)),
        (b"bytes=0-0,5-9", (None, None)),
        (b"bytes=-", (None, None)),
        (b"bytes=" + b"9" * 40 + b"-", (None, None)),
        (b"items=0-1", (None, None)),
    ],
)
def test_a_range_is_logged_as_it_was_asked(header: bytes, asked: tuple[int | None, int | None]) -> None:
    entry = LogEntry(dialect="s3", method="GET", connection=1, headers=[(b"host", b"h"), (b"range", header)])
    shown = entry.to_mapping()
    assert (shown["range_start"], shown["range_stop"]) == asked
    LoggedRequest.from_mapping(json.loads(json.dumps(shown)))


@pytest.mark.parametrize(
    ("rule", "ask", "wanted"),
    [
        ({"kind": "reset"}, {}, (None, 0, "cut")),
        ({"kind": "truncate", "after_bytes": 3}, {}, (200, 3, "cut")),
        ({"kind": "stall", "after_bytes": 3}, {"leaves": True}, (200, 3, "gone")),
        ({"kind": "stall"}, {"leaves": True}, (None, 0, "gone")),
        ({"kind": "corrupt"}, {}, (200, 10, "whole")),
        ({"kind": "lost_response"}, {"method": "DELETE"}, (None, 0, "cut")),
    ],
)
def test_a_fault_and_the_end_that_it_made_are_logged(
    rule: dict[str, Any], ask: dict[str, Any], wanted: tuple[int | None, int, str]
) -> None:
    driver = Driver(log_requests=10)
    driver.put("k", b"0123456789")
    driver.set_faults(rule)
    driver.ask(ask.pop("method", "GET"), "/data/k", **ask)
    found = logged(driver)[-1]
    assert (found.status, found.bytes_out, found.outcome) == wanted
    assert found.fault == rule["kind"]


def test_the_ring_drops_the_oldest_and_says_so() -> None:
    driver = Driver(log_requests=3)
    for number in range(5):
        driver.put(f"k{number}")
    page = json.loads(driver.ask_admin("GET", "requests").body)
    assert ([found["number"] for found in page["requests"]], page["dropped"], page["more"]) == ([3, 4, 5], 2, False)
    page = json.loads(driver.ask_admin("GET", "requests", "after=4").body)
    assert ([found["key"] for found in page["requests"]], page["dropped"]) == (["k4"], 0)
    assert json.loads(driver.ask_admin("GET", "requests", "after=9").body)["requests"] == []
    assert json.loads(driver.ask_admin("GET", "snapshot").body)["log"] == {"limit": 3, "last": 5, "dropped": 2}
    driver.ask_admin("POST", "reset")
    assert logged(driver) == []
    driver.put("again")
    assert logged(driver)[0].number == 1


def test_a_page_is_bounded() -> None:
    log = RequestLog(2 * PAGE_LIMIT)
    for _ in range(PAGE_LIMIT + 5):
        log.add(LogEntry(dialect="s3", method="GET", connection=1))
    first = log.page()
    assert (len(first["requests"]), first["more"]) == (PAGE_LIMIT, True)  # type: ignore[arg-type]  # A list of mappings.
    last = log.page(PAGE_LIMIT)
    assert (len(last["requests"]), last["more"]) == (5, False)  # type: ignore[arg-type]  # As above.


@pytest.mark.parametrize("after", ["x", "-1", "%ff", "1e3", "9" * 30])
def test_a_wrong_number_is_refused(after: str) -> None:
    answer = Driver(log_requests=1).ask_admin("GET", "requests", f"after={after}")
    assert answer.status == 400
    assert "expected the number of a request" in json.loads(answer.body)["error"]


def test_without_a_log_the_route_says_how_to_get_one() -> None:
    answer = Driver().ask_admin("GET", "requests")
    assert (answer.status, json.loads(answer.body)) == (
        409,
        {"error": "the testbed keeps no log of requests; start it with --log-requests"},
    )


def test_the_snapshot_has_all_of_one_moment_open_uploads_of_each_kind_included() -> None:
    driver = Driver(faults=[{"kind": "reset", "key": "never"}])
    driver.ask("POST", "/data/parts", "uploads")
    driver.ask("POST", "/upload/storage/v1/b/data/o", "uploadType=resumable&name=session", body=b"{}", port=GCS_PORT)
    shown = json.loads(driver.ask_admin("GET", "snapshot").body)
    assert set(shown) == {"counts", "network", "faults", "uploads", "log"}
    assert shown["log"] is None
    assert shown["counts"]["requests"] == {"create_upload": 1, "start_session": 1}
    assert [(found["kind"], found["key"], found["parts"]) for found in shown["uploads"]] == [
        ("multipart", "parts", 0),
        ("resumable", "session", None),
    ]
    assert shown["faults"]["rules"][0]["key"] == "never"


@pytest.mark.parametrize(
    ("method", "name", "status"),
    [
        ("GET", "nothing", 404),
        ("DELETE", "counts", 405),
        ("PUT", "snapshot", 405),
        ("GET", "reset", 405),
        ("POST", "requests", 405),
    ],
)
def test_other_requests_are_refused(method: str, name: str, status: int) -> None:
    assert Driver().ask_admin(method, f"{name}").status == status
