"""Both providers, over the testbed's two ports: whatever breaks, the bytes are right or a named error tells why."""

from __future__ import annotations

import gzip
import itertools
import random
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import quote

import pytest

from buckettestbed.launch import RunningTestbed, launch_testbed
from torchbucket import IterableDataset, sweep_temporaries
from torchbucket.config import MIB, RetryConfig, StoreConfig
from torchbucket.errors import (
    NotFoundError,
    ObjectChangedError,
    PermissionDeniedError,
    PreconditionFailedError,
    StoreError,
    ThrottledError,
    TransportError,
)
from torchbucket.store import ObjectInfo, Read, RequestRecord, Store, is_temporary, open_store
from torchbucket.store.gcs.dialect import GcsDialect
from torchbucket.store.http.part_writer import abort_open_writers

PART = 5 * MIB
SMALL = random.Random(1).randbytes(100_000)
LARGE = random.Random(2).randbytes(2 * PART + 12345)

_numbers = itertools.count()


@dataclass(frozen=True)
class Place:
    """A store on one port, and an area of its own in the bucket."""

    testbed: RunningTestbed
    store: Store
    scheme: str
    area: str
    records: list[RequestRecord]

    def faults(self, *rules: dict[str, object]) -> None:
        self.testbed.set_faults([{"bucket": "data", **rule} for rule in rules])

    def struck(self) -> int:
        return sum(rule["injected"] for rule in self.testbed.faults()["rules"])

    def left(self) -> list[str]:
        self.testbed.set_faults([])
        assert self.testbed.open_uploads() == []
        return [info.key.removeprefix(self.area) for info in self.store.list(self.area)]


@pytest.fixture(scope="module")
def testbed() -> Iterator[RunningTestbed]:
    with launch_testbed(buckets=["data"]) as running:
        yield running


@pytest.fixture(params=["s3", "gs"])
def place(request: pytest.FixtureRequest, testbed: RunningTestbed) -> Iterator[Place]:
    endpoint = testbed.s3_endpoint if request.param == "s3" else testbed.gcs_endpoint
    records: list[RequestRecord] = []
    config = StoreConfig(
        endpoint=endpoint,
        part_size_bytes=PART,
        memory_budget_bytes=4 * PART,
        list_page_size=50,
        stall_timeout_s=1,
        hedge_share=0.0,  # so that each fault meets the request that it was meant for
        retry=RetryConfig(initial_s=0.001, maximum_s=0.05, max_attempts=4),
    )
    store = open_store(f"{request.param}://data", config, observer=records.append)
    yield Place(testbed, store, request.param, f"area-{next(_numbers)}/", records)
    testbed.set_faults([])
    store.close()


ONCE = [
    {"kind": "error", "status": 503, "times": 2},
    {"kind": "error", "status": 429, "retry_after_s": 0, "times": 1},
    {"kind": "error", "status": 500, "times": 1},
    {"kind": "reset", "times": 1},
    {"kind": "reset", "after_bytes": 40_000, "times": 1},
    {"kind": "truncate", "times": 1},
    {"kind": "truncate", "after_bytes": 1, "times": 2},
    {"kind": "stall", "seconds": 60, "times": 1},
]


@pytest.mark.parametrize("fault", ONCE, ids=lambda fault: "-".join(map(str, fault.values())))
def test_a_read_survives(place: Place, fault: dict[str, object]) -> None:
    place.store.write(f"{place.area}k", SMALL)
    for memory in (None, memoryview(bytearray(len(SMALL)))):
        place.faults({**fault, "operations": ["get_object", "get_object_range"]})
        found = place.store.submit_read(Read(key=f"{place.area}k", into=memory, size_bytes=len(SMALL))).result()
        assert found.data == SMALL
        assert place.struck() == fault["times"]


@pytest.mark.parametrize("fault", ONCE[:7], ids=lambda fault: "-".join(map(str, fault.values())))
def test_a_large_read_survives(place: Place, fault: dict[str, object]) -> None:
    place.store.write(f"{place.area}k", LARGE)
    place.faults({**fault, "operations": ["get_object_range"]})
    assert place.store.read(f"{place.area}k").data == LARGE
    assert place.struck() == fault["times"]


@pytest.mark.nightly  # libcurl takes seconds to notice; each commit has it in test_store_read_faults
def test_a_read_that_stands_still_goes_on(place: Place) -> None:
    place.store.write(f"{place.area}k", SMALL)
    place.faults({"kind": "stall", "seconds": 60, "after_bytes": 70_000, "times": 1, "operations": ["get_object"]})
    assert place.store.submit_read(Read(key=f"{place.area}k", size_bytes=len(SMALL))).result().data == SMALL
    assert place.struck() == 1


def test_a_read_that_is_cut_reads_on_pinned(place: Place) -> None:
    """What arrived before the break stays, and the rest is asked for, of the version seen."""
    place.store.write(f"{place.area}k", SMALL)
    place.testbed.reset_counts()
    place.faults({"kind": "truncate", "after_bytes": 60_000, "times": 1, "operations": ["get_object"]})
    read = place.store.submit_read(Read(key=f"{place.area}k", size_bytes=len(SMALL)))
    assert read.result().data == SMALL
    counted = place.testbed.counts()["requests"]
    assert (counted["get_object"], counted["get_object_range"]) == (1, 1)


def test_an_object_replaced_after_a_break_is_not_mixed(place: Place) -> None:
    key = f"{place.area}k"
    version = place.store.write(key, SMALL).version
    place.store.write(key, SMALL[::-1])
    with pytest.raises(ObjectChangedError):
        place.store.submit_read(Read(key=key, size_bytes=len(SMALL), version=version)).result()


@pytest.mark.parametrize(("status", "error"), [(503, StoreError), (429, ThrottledError), (500, TransportError)])
def test_what_never_ends_is_a_named_error(place: Place, status: int, error: type[StoreError]) -> None:
    place.store.write(f"{place.area}k", SMALL)
    place.faults({"kind": "error", "status": status, "operations": ["get_object", "get_object_range"]})
    with pytest.raises(error, match="gave up after 4 attempts") as caught:
        place.store.read(f"{place.area}k")
    assert (caught.value.status, caught.value.attempts) == (status, 4)
    assert caught.value.uri == f"{place.scheme}://data/{place.area}k"


def test_a_refusal_is_not_repeated(place: Place) -> None:
    place.store.write(f"{place.area}k", SMALL)
    place.faults({"kind": "error", "status": 403, "operations": ["get_object", "get_object_range"]})
    with pytest.raises(PermissionDeniedError, match="403"):
        place.store.read(f"{place.area}k")
    assert place.struck() == 1


WRITES = ["put_object", "create_upload", "upload_part", "complete_upload"]


LOST = {"kind": "lost_response"}


def _struck_writes() -> list[object]:
    """Each fault of each operation on each condition; an answer that says no leaves the condition as it was."""
    faults = ({"kind": "error", "status": 503}, {"kind": "error", "status": 500}, {"kind": "reset"}, LOST)
    return [
        pytest.param(
            operation,
            fault,
            condition,
            marks=() if condition == "none" or fault is LOST else pytest.mark.nightly,
            id=f"{operation}-{'-'.join(map(str, fault.values()))}-{condition}",
        )
        for operation, fault, condition in itertools.product(WRITES, faults, ("none", "absent", "version"))
    ]


@pytest.mark.parametrize(("operation", "fault", "condition"), _struck_writes())
def test_a_write_survives(place: Place, operation: str, fault: dict[str, object], condition: str) -> None:
    """Also where the answer was lost, and the second try is refused because of the first."""
    if operation == "create_upload" and fault["kind"] == "lost_response":
        pytest.skip("nobody can know the id of an upload whose creation's answer was lost; see the sweep below")
    key = f"{place.area}k"
    content = SMALL if operation == "put_object" else LARGE
    version = place.store.write(key, b"before").version if condition == "version" else None
    place.faults({**fault, "times": 1, "operations": [operation]})
    info = place.store.write(key, content, if_absent=condition == "absent", if_version=version)
    assert place.struck() == 1
    assert place.left() == ["k"]
    found = place.store.read(key, version=info.version)
    assert found.data == content
    assert found.info.size_bytes == info.size_bytes == len(content)


@pytest.fixture
def joining(place: Place) -> Place:
    if place.scheme == "s3":
        pytest.skip("S3 composes nothing")
    return place


@pytest.mark.parametrize("if_absent", [False, True])
def test_an_upload_whose_beginning_was_lost_is_swept(place: Place, if_absent: bool) -> None:
    """It cannot be told from another writer's of the same key, unless its key is a temporary one."""
    key = f"{place.area}k"
    place.faults({"kind": "lost_response", "times": 1, "operations": ["create_upload"]})
    place.store.write(key, LARGE, if_absent=if_absent)
    assert place.struck() == 1
    (left,) = place.store.list_uploads(place.area)
    uri, config = f"{place.store.uri}/{place.area}", place.store.config
    assert sweep_temporaries(uri, config=config).aborted == ()  # too young
    told = place.scheme == "gs" and if_absent
    assert sweep_temporaries(uri, older_than_s=0, config=config).aborted == ((left,) if told else ())
    sweep_temporaries(uri, older_than_s=0, uploads=True, config=config)
    assert list(place.store.list_uploads(place.area)) == []
    assert place.store.read(key).data == LARGE


def test_what_a_write_on_a_condition_left_is_no_sample_and_is_swept(joining: Place) -> None:
    """The removal that fails stands for a process that is killed before it."""
    joining.store.write(f"{joining.area}a", b"a sample")
    joining.faults({"kind": "error", "status": 403, "operations": ["delete_object"]})
    joining.store.write(f"{joining.area}k", LARGE, if_absent=True)
    joining.faults()
    assert sum(map(is_temporary, joining.left())) == 1
    uri, config = f"{joining.store.uri}/{joining.area}", joining.store.config
    assert list(IterableDataset.from_prefix(uri, config=config)) == [b"a sample", LARGE]
    assert len(sweep_temporaries(uri, older_than_s=0, config=config).removed) == 1
    assert sorted(joining.left()) == ["a", "k"]


def test_an_exit_during_a_write_on_a_condition_leaves_no_temporary(
    joining: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its thread gets no further than to the request that would make the object of the temporary one."""

    def end(*_: object, **__: object) -> None:
        abort_open_writers()
        raise SystemExit

    monkeypatch.setattr(GcsDialect, "compose_objects", end)
    with pytest.raises(SystemExit), joining.store.open_writer(f"{joining.area}k", if_absent=True) as writer:
        writer.write(LARGE)
    assert joining.left() == []


@pytest.mark.parametrize("operation", WRITES)
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("if_absent", [False, True])
def test_a_write_that_is_refused_leaves_nothing(place: Place, operation: str, streamed: bool, if_absent: bool) -> None:
    key = f"{place.area}k"
    content = SMALL if operation == "put_object" else LARGE
    place.faults({"kind": "error", "status": 403, "operations": [operation]})
    with pytest.raises(PermissionDeniedError):
        if streamed:
            with place.store.open_writer(key, if_absent=if_absent) as writer:
                writer.write(content)
        else:
            place.store.write(key, content, if_absent=if_absent)
    assert place.left() == []


@pytest.mark.parametrize("size", ["small", "large"])
def test_a_lost_write_does_not_take_anothers_object_for_its_own(place: Place, size: str) -> None:
    """The key is taken already, and the first answer is lost: the second must not be mistaken for success."""
    key = f"{place.area}k"
    content = SMALL if size == "small" else LARGE
    place.store.write(key, content[::-1])
    place.faults({"kind": "error", "status": 500, "times": 1})
    with pytest.raises(PreconditionFailedError):
        place.store.write(key, content, if_absent=True)
    assert place.left() == ["k"]
    assert place.store.read(key).data == content[::-1]


def test_a_delete_whose_answer_was_lost(place: Place) -> None:
    for version in (None, place.store.write(f"{place.area}k", b"x").version):
        version = version and place.store.write(f"{place.area}k", b"x").version
        place.store.head(f"{place.area}k")
        place.faults({"kind": "lost_response", "times": 1, "operations": ["delete_object"]})
        place.store.delete(f"{place.area}k", if_version=version)
        assert place.struck() == 1
        assert place.left() == []
        place.store.write(f"{place.area}k", b"again")


@pytest.mark.parametrize("kind", ["error", "reset"])
def test_a_listing_survives(place: Place, kind: str) -> None:
    keys = [f"{number:04}" for number in range(170)]
    for key in keys:
        place.store.write(place.area + key, b"")
    rule: dict[str, object] = {"kind": kind, "every": 2}
    place.faults({**rule, "status": 503} if kind == "error" else rule)
    found = [info.key.removeprefix(place.area) for info in place.store.list(place.area)]
    assert place.struck() > 0
    assert found == keys


def test_a_listing_goes_on_after_a_page_without_entries(place: Place) -> None:
    keys = [f"{number:04}" for number in range(120)]
    for key in keys:
        place.store.write(place.area + key, b"")
    for nth in (1, 3):
        place.faults({"kind": "empty_page", "nth": nth})
        assert [info.key.removeprefix(place.area) for info in place.store.list(place.area)] == keys
        assert place.struck() == 1
    place.faults({"kind": "empty_page"})
    with pytest.raises(StoreError, match="repeats a page's token"):
        list(place.store.list(place.area))


@pytest.mark.parametrize("streamed", [False, True])
def test_a_completion_that_fails_after_its_200_is_tried_again(place: Place, streamed: bool) -> None:
    if place.scheme == "gs":
        pytest.skip("only S3 answers before it is done")
    key = f"{place.area}k"
    place.faults({"kind": "error_after_200", "times": 2})
    if streamed:
        with place.store.open_writer(key) as writer:
            writer.write(LARGE)
    else:
        place.store.write(key, LARGE)
    assert place.struck() == 2
    assert place.left() == ["k"]
    assert place.store.read(key).data == LARGE


COMPOSE_FAULTS = [
    {"kind": "error", "status": 503},
    {"kind": "error", "status": 500},
    {"kind": "reset"},
    {"kind": "lost_response"},
]


@pytest.mark.parametrize("fault", COMPOSE_FAULTS, ids=lambda fault: "-".join(map(str, fault.values())))
@pytest.mark.parametrize("own", [False, True])
def test_a_compose_survives(joining: Place, fault: dict[str, object], own: bool) -> None:
    """Once in the middle of a tree, once onto a source, which a repetition would append twice."""
    infos = [joining.store.write(f"{joining.area}{number:03}", b"%03d" % number) for number in range(1 if own else 50)]
    infos = [*infos, joining.store.write(f"{joining.area}more", b"more")]
    target = infos[0].key if own else f"{joining.area}target"
    joining.faults({**fault, "times": 1, "operations": ["compose_object"]})
    info = joining.store.compose(infos, target)
    assert joining.struck() == 1
    expected = b"".join(b"%03d" % number for number in range(len(infos) - 1)) + b"more"
    assert bytes(joining.store.read(target, version=info.version).data) == expected
    assert len(joining.left()) == len(infos) + (not own)


@pytest.mark.parametrize("nth", [1, 2, 3])
def test_a_compose_that_fails_leaves_its_sources_alone(joining: Place, nth: int) -> None:
    infos = [joining.store.write(f"{joining.area}{number:03}", b"x") for number in range(70)]
    joining.faults({"kind": "error", "status": 403, "nth": nth, "operations": ["compose_object"]})
    with pytest.raises(PermissionDeniedError):
        joining.store.compose(infos, f"{joining.area}target")
    assert len(joining.left()) == 70


@pytest.mark.parametrize("fault", COMPOSE_FAULTS, ids=lambda fault: "-".join(map(str, fault.values())))
def test_a_large_write_on_a_condition_survives_its_publication(joining: Place, fault: dict[str, object]) -> None:
    key = f"{joining.area}k"
    joining.faults({**fault, "times": 1, "operations": ["compose_object"]})
    info = joining.store.write(key, LARGE, if_absent=True)
    assert joining.struck() == 1
    assert joining.left() == ["k"]
    assert joining.store.read(key, version=info.version).data == LARGE


def range_operation(place: Place) -> str:
    """By what a range of another object is appended: S3 copies it, of Cloud Storage it is read."""
    return "upload_part_copy" if place.scheme == "s3" else "get_object_range"


@pytest.mark.parametrize("fault", COMPOSE_FAULTS[:3], ids=lambda fault: "-".join(map(str, fault.values())))
def test_an_appended_range_survives(place: Place, fault: dict[str, object]) -> None:
    source = place.store.write(f"{place.area}source", LARGE)
    place.faults({**fault, "times": 1, "operations": [range_operation(place)]})
    with place.store.open_writer(f"{place.area}k") as writer:
        writer.write(b"head")
        writer.write_range(source, 7, len(LARGE))
    assert place.struck() == 1
    assert place.store.read(f"{place.area}k").data == b"head" + LARGE[7:]
    assert place.left() == ["k", "source"]


def test_a_range_that_cannot_be_appended_leaves_nothing(place: Place) -> None:
    source = place.store.write(f"{place.area}source", LARGE)
    place.faults({"kind": "error", "status": 403, "operations": [range_operation(place)]})
    with pytest.raises(PermissionDeniedError, match="source"), place.store.open_writer(f"{place.area}k") as writer:
        writer.write(b"head")
        writer.write_range(source, 7, len(LARGE))
    assert place.left() == ["source"]


def test_a_copy_whose_source_changes(joining: Place) -> None:
    """The copy is pinned to what was described; the testbed strikes between."""
    source = joining.store.write(f"{joining.area}s", b"first")
    joining.store.write(f"{joining.area}s", b"second")
    dialect = joining.store._dialect  # type: ignore[attr-defined]  # the step after the description alone
    with pytest.raises(ObjectChangedError, match=r"copy_object .*/s: the object no longer has the version"):
        joining.store._ask(dialect.copy_object(source, f"{joining.area}t"))  # type: ignore[attr-defined]
    with pytest.raises(NotFoundError):
        joining.store._ask(  # type: ignore[attr-defined]
            dialect.copy_object(ObjectInfo(key=f"{joining.area}none", size_bytes=0), f"{joining.area}t")
        )


@pytest.mark.parametrize("removed", [True, False])
def test_temporaries_are_named_and_a_removal_that_fails_is_told(
    joining: Place, removed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    infos = [joining.store.write(f"{joining.area}{number:03}", b"x") for number in range(40)]
    if not removed:
        joining.faults({"kind": "error", "status": 403, "operations": ["delete_object"]})
    joining.store.compose(infos, f"{joining.area}target")
    left = joining.left()
    assert [key for key in left if is_temporary(key)] == [key for key in left if not key[:3].isdigit() and "." in key]
    assert len(left) == 41 + (not removed)
    assert ("could not be removed" in caplog.text) == (not removed)


def test_a_compressed_object_arrives_as_it_is_stored(joining: Place) -> None:
    """Cloud Storage would decompress it for a client that does not say otherwise, and ignore ranges."""
    stored = gzip.compress(SMALL[:5000] * 20, mtime=0)
    path = f"/upload/storage/v1/b/data/o?uploadType=media&contentEncoding=gzip&name={quote(joining.area, safe='')}k"
    request = urllib.request.Request(joining.testbed.gcs_endpoint + path, data=stored, method="POST")
    urllib.request.urlopen(request, timeout=30).close()
    (info,) = joining.store.list(joining.area)
    assert info.size_bytes == len(stored)
    assert joining.store.submit_read(Read(key=info.key, size_bytes=info.size_bytes)).result().data == stored
    assert joining.store.read(info.key).data == stored
    assert bytes(joining.store.read(info.key, start=10, stop=900).data) == stored[10:900]
