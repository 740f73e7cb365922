"""What clients nobody here wrote make of each fault; docs/testbed.md has the table that this makes.

Each cell strikes one request of one call. Whatever a client does then, it may not both succeed and have done the wrong
thing, save where the table says in bold that it does. The table tells of other projects, so it is made at night; on
each commit every client is struck by one fault of a read and one of a write.
"""

from __future__ import annotations

import http.client
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

import pytest
from struck_clients import BUCKET, CLIENTS, Struck, no_waits_between_tries
from testbed_tables import Table

from buckettestbed import RunningTestbed, launch_testbed

BODY = random.Random(1).randbytes(300_000)
LARGE = random.Random(2).randbytes(6 << 20)  # Two parts of S3.
CHUNKED = LARGE[: 600 << 10]  # Three chunks of a resumable session.
NAMES = [f"many/{number:04}" for number in range(2100)]  # Three pages of every provider.
READS = ["get_object", "get_object_range"]
OLD, FRESH = [f"aged/old-{number}" for number in range(5)], [f"aged/fresh-{number}" for number in range(5)]
AGE_S = 2.0
MANY_S = 30

READ_FAULTS: Mapping[str, dict[str, Any]] = {
    "a read is answered 503": {"kind": "error", "status": 503},
    "a read is reset before its answer": {"kind": "reset"},
    "a read is reset inside its body": {"kind": "reset", "after_fraction": 0.5},
    "a read's body ends early, cleanly": {"kind": "truncate"},
    "a read stalls before its first byte": {"kind": "stall"},
    "a read stalls inside its body": {"kind": "stall", "after_fraction": 0.5},
    "a read's first byte is late": {"kind": "delay", "seconds": 0.1},
    "a read's body drips": {"kind": "drip", "bytes_per_s": len(BODY) / 0.1},
    "one byte of a read is changed": {"kind": "corrupt"},
}
LISTING_FAULTS: Mapping[str, dict[str, Any]] = {
    "a listing's page comes twice": {"kind": "repeat_page"},
    "a listing's page is left out": {"kind": "skip_page", "nth": 2},
    "a listing's first page holds nothing": {"kind": "empty_page", "nth": 1},
}
WRITE_FAULTS: Mapping[str, dict[str, Any]] = {
    "a write is answered 503": {"kind": "error", "status": 503},
    "a write is reset inside its body": {"kind": "reset_upload", "after_bytes": 100_000},
    "the answer to a write is lost": {"kind": "lost_response"},
}
STALE = "a listing lacks what was just written"
CREATE, COMPLETE = "the answer to a write is lost that was to create", "the answer to the end of a large upload is lost"
LATE = "the end of a large upload is answered 200, and is an error"

ON_EACH_COMMIT = ("a read is reset inside its body", "the answer to a write is lost")


def faults(named: Mapping[str, Any]) -> list[object]:
    """The names of some faults, those that strike at night only marked so."""
    return [pytest.param(name, marks=() if name in ON_EACH_COMMIT else pytest.mark.nightly, id=name) for name in named]


TABLE = Table(
    name="faults",
    corner="fault",
    rows=[*READ_FAULTS, STALE, *LISTING_FAULTS, *WRITE_FAULTS, CREATE, COMPLETE, LATE],
    columns=list(CLIENTS),
)


def put_empty(testbed: RunningTestbed, names: list[str]) -> None:
    connection = http.client.HTTPConnection(urlsplit(testbed.s3_endpoint).netloc, timeout=60)
    for name in names:
        connection.request("PUT", f"/{BUCKET}/{name}", b"")
        assert connection.getresponse().read() == b""
    connection.close()


def abort(testbed: RunningTestbed, key: str, upload_id: str) -> None:
    connection = http.client.HTTPConnection(urlsplit(testbed.s3_endpoint).netloc, timeout=60)
    connection.request("DELETE", f"/{BUCKET}/{key}?uploadId={upload_id}")
    assert connection.getresponse().status == 204
    connection.close()


@pytest.fixture(scope="module")
def old_at_s(testbed: RunningTestbed) -> float:
    """When the last of the old names was there, at least `AGE_S` ago."""
    at_s = time.time()
    time.sleep(AGE_S)
    return at_s


@pytest.fixture(scope="module")
def testbed() -> Iterator[RunningTestbed]:
    with pytest.MonkeyPatch.context() as patched, no_waits_between_tries():
        patched.setenv("AWS_ACCESS_KEY_ID", "key")
        patched.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        with launch_testbed(buckets=[BUCKET], log_requests=10_000) as running:
            running.put_objects(BUCKET, [(name, 0) for name in NAMES + OLD])
            yield running


@pytest.fixture(scope="module")
def made(testbed: RunningTestbed) -> Callable[..., Struck]:
    """Returns a client by name, the same one each time, or one with a short limit on silence."""
    known: dict[tuple[str, bool], Struck] = {}

    def make(name: str, *, impatient: bool = False) -> Struck:
        if (name, impatient) not in known:
            known[name, impatient] = CLIENTS[name](testbed, impatient=impatient)
        return known[name, impatient]

    return make


class Blow:
    """One call under one fault: what it returned or raised, and which requests it took."""

    def __init__(self, testbed: RunningTestbed, rule: dict[str, Any], call: Callable[[], Any]) -> None:
        testbed.set_faults([{"times": 1, **rule} if "nth" not in rule else rule])
        testbed.reset_counts()
        self.returned: Any = None
        self.error: Exception | None = None
        try:
            self.returned = call()
        except Exception as error:  # noqa: BLE001 - whatever a client raises is what is looked for.
            self.error = error
        (shown,) = testbed.faults()["rules"]
        testbed.set_faults("none")
        assert shown["injected"] == 1, shown
        self.tries = shown["matched"]
        self.requests = testbed.requests()

    @property
    def raised(self) -> str:
        return f"raises `{type(self.error).__name__}`"

    @property
    def tried_again(self) -> str:
        """How the client went on after the blow."""
        if self.tries == 1:
            return "waits"
        resumed = any((found.range_start or 0) > 0 for found in self.requests)
        return "reads on from there" if resumed else "tries again"


@pytest.mark.parametrize("fault", faults(READ_FAULTS))
@pytest.mark.parametrize("name", CLIENTS)
def test_a_read_is_struck(testbed: RunningTestbed, made: Callable[..., Struck], name: str, fault: str) -> None:
    rule, key = dict(READ_FAULTS[fault]), f"read/{CLIENTS[name].__name__}"
    client = made(name, impatient=rule["kind"] == "stall")
    if rule["kind"] == "stall":  # Clients without a limit wait it out, the others never see its end.
        rule["seconds"] = MANY_S if client.has_silence_limit else 0.5
    made(name).save(key, BODY)
    blow = Blow(testbed, {**rule, "operations": READS, "key": key}, lambda: client.load(key))
    if blow.error is not None:
        TABLE.record(fault, name, blow.raised)
    elif blow.returned == BODY:
        TABLE.record(fault, name, blow.tried_again)
    else:
        assert rule["kind"] == "corrupt"
        assert sum(got != sent for got, sent in zip(blow.returned, BODY, strict=True)) == 1
        TABLE.record(fault, name, "**returns the wrong byte**")


def listed(found: list[str], names: list[str]) -> str:
    """Returns what is wrong with a listing."""
    times = Counter(found)
    assert set(times) <= set(names)
    missing, double = len(names) - len(times), sum(times.values()) - len(times)
    texts = [f"lacks {missing:,} of {len(names):,} names"] if missing else []
    texts += [f"has {double:,} names twice"] if double else []
    return f"**{' and '.join(texts)}**" if texts else "goes on"


@pytest.mark.parametrize("fault", faults(LISTING_FAULTS))
@pytest.mark.parametrize("name", CLIENTS)
def test_a_listing_is_struck(testbed: RunningTestbed, made: Callable[..., Struck], name: str, fault: str) -> None:
    blow = Blow(testbed, LISTING_FAULTS[fault], lambda: made(name).names("many"))
    TABLE.record(fault, name, blow.raised if blow.error is not None else listed(blow.returned, NAMES))


@pytest.mark.nightly
@pytest.mark.parametrize("name", CLIENTS)
def test_a_listing_is_stale(testbed: RunningTestbed, made: Callable[..., Struck], name: str, old_at_s: float) -> None:
    client = made(name)
    put_empty(testbed, FRESH)
    rule = {"kind": "stale_listing", "seconds": time.time() - old_at_s}
    blow = Blow(testbed, rule, lambda: client.names("aged"))
    TABLE.record(STALE, name, blow.raised if blow.error is not None else listed(blow.returned, OLD + FRESH))


def settled(testbed: RunningTestbed, blow: Blow, reader: Struck, key: str, body: bytes) -> str:
    """Returns the reaction to a struck write; whoever is told that it was done must find it done."""
    assert testbed.open_uploads() == []
    if blow.error is None:
        assert reader.load(key) == body
        return "tries again" if blow.tries > 1 else "does not notice"
    return blow.raised


@pytest.mark.parametrize("fault", faults(WRITE_FAULTS))
@pytest.mark.parametrize("name", CLIENTS)
def test_a_write_is_struck(testbed: RunningTestbed, made: Callable[..., Struck], name: str, fault: str) -> None:
    client, key = made(name), f"write/{CLIENTS[name].__name__}"
    blow = Blow(testbed, {**WRITE_FAULTS[fault], "operations": [client.write]}, lambda: client.save(key, BODY))
    TABLE.record(fault, name, settled(testbed, blow, client, key, BODY))


@pytest.mark.nightly
@pytest.mark.parametrize("name", CLIENTS)
def test_the_answer_to_a_creation_is_lost(testbed: RunningTestbed, made: Callable[..., Struck], name: str) -> None:
    client, key = made(name), f"create/{CLIENTS[name].__name__}"
    if not client.has_create:
        TABLE.record(CREATE, name, "no call")
        return
    rule = {"kind": "lost_response", "operations": [client.write, "complete_upload", "upload_chunk"]}
    blow = Blow(testbed, rule, lambda: client.create(key, BODY))
    reaction = settled(testbed, blow, client, key, BODY)
    assert client.load(key) == BODY
    TABLE.record(CREATE, name, f"{reaction}, though it did" if blow.error is not None else reaction)


@pytest.mark.nightly
@pytest.mark.parametrize("name", CLIENTS)
def test_the_answer_to_the_end_of_an_upload_is_lost(
    testbed: RunningTestbed, made: Callable[..., Struck], name: str
) -> None:
    client, key = made(name), f"large/{CLIENTS[name].__name__}"
    body = CHUNKED if client.end == "upload_chunk" else LARGE
    testbed.reset_counts()
    client.save_large(key, body)
    last = testbed.counts()["requests"][client.end]
    client.save(key, b"before")
    rule = {"kind": "lost_response", "operations": [client.end], "nth": last}
    blow = Blow(testbed, rule, lambda: client.save_large(key, body))
    reaction = settled(testbed, blow, client, key, body)
    assert client.load(key) == body
    TABLE.record(COMPLETE, name, f"{reaction}, though it was done" if blow.error is not None else reaction)


@pytest.mark.nightly
@pytest.mark.parametrize("name", CLIENTS)
def test_the_end_of_an_upload_fails_after_a_200(
    testbed: RunningTestbed, made: Callable[..., Struck], name: str
) -> None:
    client, key = made(name), f"late/{CLIENTS[name].__name__}"
    if not client.is_s3:
        TABLE.record(LATE, name, "S3 only")
        return
    client.save(key, b"before")
    rule = {"kind": "error_after_200", "operations": [client.end]}
    blow = Blow(testbed, rule, lambda: client.save_large(key, LARGE))
    left = testbed.open_uploads()
    for upload in left:
        abort(testbed, upload["key"], upload["id"])
    found = client.load(key)
    assert found == (b"before" if blow.error is not None or blow.tries == 1 else LARGE)
    reaction = blow.raised if blow.error is not None else "tries again" if blow.tries > 1 else "**takes it for done**"
    TABLE.record(LATE, name, f"{reaction}, and leaves the upload open" if left else reaction)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("name", "tries", "words"),
    [("boto3", 5, "SlowDown"), ("obstore (S3)", 11, "503"), ("obstore (GCS)", 11, "503")],
)
def test_a_fault_that_stays_is_told_after_the_clients_tries(
    testbed: RunningTestbed, made: Callable[..., Struck], name: str, tries: int, words: str
) -> None:
    client, key = made(name), f"stays/{CLIENTS[name].__name__}"
    client.save(key, BODY)
    testbed.set_faults([{"kind": "error", "status": 503, "operations": READS, "key": key}])
    with pytest.raises(Exception, match=words):
        client.load(key)
    (shown,) = testbed.faults()["rules"]
    testbed.set_faults("none")
    assert (shown["matched"], shown["injected"]) == (tries, tries)


@pytest.mark.nightly
def test_the_document_has_the_table_of_reactions() -> None:
    TABLE.settle()
