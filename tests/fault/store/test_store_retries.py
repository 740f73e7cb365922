"""How often and how fast a store asks again, counted by the testbed; and that every request ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from buckettestbed.launch import RunningTestbed, launch_testbed
from torchbucket.config import KIB, MIB, RetryConfig, StoreConfig
from torchbucket.errors import StoreError, ThrottledError, TransportError
from torchbucket.store import Read, RequestRecord, Store, open_store

SIZE = 100 * KIB
LARGE = 24 * MIB
TWO_PARTS = 6 * MIB
QUICK = RetryConfig(initial_s=0.001, maximum_s=0.01, max_attempts=3)

Opened = Callable[..., Store]


@pytest.fixture(scope="module")
def served() -> Iterator[RunningTestbed]:
    with launch_testbed(buckets=["data"], log_requests=20_000) as testbed:
        store = open_store("s3://data", StoreConfig(endpoint=testbed.s3_endpoint, anonymous=True))
        for number in range(64):
            store.write(f"k{number:02}", bytes([number]) * SIZE)
        store.write("large", bytes(LARGE))
        for number in range(5):
            store.write(f"large-{number}", bytes(TWO_PARTS))
        store.close()
        yield testbed


@pytest.fixture
def testbed(served: RunningTestbed) -> Iterator[RunningTestbed]:
    served.set_faults("none")
    served.reset_counts()
    yield served
    served.set_faults("none")
    served.set_network("none")


@pytest.fixture
def opened(testbed: RunningTestbed, records: list[RequestRecord]) -> Iterator[Opened]:
    stores = []

    def make(**fields: object) -> Store:
        settings = {"endpoint": testbed.s3_endpoint, "anonymous": True, "part_size_bytes": 5 * MIB, **fields}
        stores.append(open_store("s3://data", StoreConfig(**settings), observer=records.append))
        return stores[-1]

    yield make
    for store in stores:
        store.close()


def read_all(store: Store, times: int = 1) -> int:
    """Read every small object so often, all at once; return how many reads failed."""
    failed = 0
    futures = [(n, store.submit_read(Read(key=f"k{n:02}", size_bytes=SIZE))) for _ in range(times) for n in range(64)]
    for number, future in futures:
        try:
            assert future.result(60).data == bytes([number]) * SIZE
        except StoreError:
            failed += 1
    return failed


def error(status: int, **rule: object) -> dict[str, object]:
    return {"kind": "error", "status": status, **rule}


def test_listings_have_a_patience_of_their_own(testbed: RunningTestbed, opened: Opened) -> None:
    store = opened(retry=QUICK, list_retry=RetryConfig(initial_s=0.001, maximum_s=0.01, max_attempts=5))
    testbed.set_faults([error(500, probability=1.0)])
    with pytest.raises(TransportError, match="gave up after 5 attempts"):
        list(store.list())
    with pytest.raises(TransportError, match="gave up after 5 attempts"):
        store.submit_list_page("").result(30)
    with pytest.raises(TransportError, match="gave up after 3 attempts"):
        store.head("k00")
    operations = [request.operation for request in testbed.requests()]
    assert operations == ["list_objects_v2"] * 10 + ["head_object"] * 3


def test_without_one_listings_are_as_patient_as_the_rest(testbed: RunningTestbed, opened: Opened) -> None:
    testbed.set_faults([error(500, probability=1.0)])
    with pytest.raises(TransportError, match="gave up after 3 attempts"):
        list(opened(retry=QUICK).list())


def test_a_single_failure_is_asked_again_almost_at_once(testbed: RunningTestbed, opened: Opened) -> None:
    """Within a twentieth of ``initial_s``; with a back-off from the first failure on, eight below 8 s are luck."""
    store = opened(retry=RetryConfig(initial_s=20.0, maximum_s=20.0), hedge_share=0)
    keys = [f"k{number:02}" for number in range(8)]
    testbed.set_faults([error(500, methods=["GET"], key=key, nth=1) for key in keys])
    assert read_all(store) == 0
    arrived_s = {key: [request.arrived_s for request in testbed.requests() if request.key == key] for key in keys}
    assert all(len(two) == 2 and abs(two[1] - two[0]) < 8.0 for two in arrived_s.values())


def test_an_outage_does_not_multiply_the_load(testbed: RunningTestbed, opened: Opened) -> None:
    """640 reads of ten attempts each; what a service that is down sees is bounded by the budget, not by them."""
    store = opened(retry=RetryConfig(initial_s=0.001, maximum_s=1.0, max_attempts=10), hedge_share=0)
    testbed.set_faults([error(500, methods=["GET"], probability=1.0)])
    began_s = time.monotonic()
    futures = [store.submit_read(Read(key=f"k{n % 64:02}", size_bytes=SIZE)) for n in range(640)]
    asked = 0
    while asked < 640:
        time.sleep(0.4)
        asked = testbed.counts()["requests"]["get_object"]
    most = 640 + 100 + 64 + 10 * (time.monotonic() - began_s) + 1  # The burst, and 10 a second.
    assert asked <= most
    testbed.set_faults("none")
    for number, future in enumerate(futures):
        assert future.result(60).data == bytes([number % 64]) * SIZE


def test_the_wait_that_a_server_asks_for_is_kept(testbed: RunningTestbed, opened: Opened) -> None:
    store = opened(hedge_share=0)
    refused = {"k00": 503, "k01": 429}
    testbed.set_faults([error(status, key=key, nth=1, retry_after_s=1) for key, status in refused.items()])
    futures = [store.submit_read(Read(key=key, size_bytes=SIZE)) for key in refused]
    assert [future.result(30).data for future in futures] == [bytes(SIZE), b"\1" * SIZE]
    for key in refused:
        first, second = (request for request in testbed.requests() if request.key == key)
        assert second.arrived_s - first.arrived_s >= 0.99


def test_a_service_that_refuses_sees_hardly_more_than_it_grants(testbed: RunningTestbed, opened: Opened) -> None:
    testbed.set_network({"reads_per_s": 300, "first_byte_s": 0.005})
    store = opened(retry=RetryConfig(max_attempts=100, initial_s=0.05))
    assert read_all(store, times=12) == 0
    assert read_all(store, times=6) == 0
    refused = testbed.counts()["errors"].get("503", 0)
    assert refused < 18 * 64  # About 220, none on a machine slower than the limit; without the pace about 1,500.


def test_a_service_that_refuses_for_ever_is_named(testbed: RunningTestbed, opened: Opened) -> None:
    testbed.set_faults([error(503, methods=["GET"], probability=1.0)])
    with pytest.raises(ThrottledError, match="gave up after 3 attempts"):
        opened(retry=QUICK).submit_read(Read(key="k00", size_bytes=SIZE)).result(30)


def test_every_request_ends_at_its_deadline(testbed: RunningTestbed, opened: Opened) -> None:
    rules = {
        "drip": {"kind": "drip", "bytes_per_s": 2},
        "stall": {"kind": "stall", "seconds": 100},
        "stall inside": {"kind": "stall", "seconds": 100, "after_bytes": 10},
        "silence": {"kind": "delay", "seconds": 100},
        "errors": error(500),
    }
    keys = [(kind, f"k{number:02}", f"large-{number}") for number, kind in enumerate(rules)]
    testbed.set_faults([{**rules[kind], "key": key, "methods": ["GET"]} for kind, *both in keys for key in both])
    futures = []
    for _, small, large in keys:
        store = opened(retry=RetryConfig(deadline_s=0.7, maximum_s=0.2, max_attempts=100))
        futures.append(store.submit_read(Read(key=small, size_bytes=SIZE)))
        futures.append(store.submit_read(Read(key=large, size_bytes=TWO_PARTS)))
    for future in futures:
        with pytest.raises(StoreError, match=r"deadline_s is 0\.7"):
            future.result(60)


def test_writes_and_listings_end_at_their_deadline_too(testbed: RunningTestbed, opened: Opened) -> None:
    testbed.set_faults([{"kind": "stall", "seconds": 100, "probability": 1.0}])
    store = opened(retry=RetryConfig(deadline_s=0.5), list_retry=RetryConfig(deadline_s=0.3))
    with pytest.raises(StoreError, match=r"deadline_s is 0\.5"):
        store.write("new", b"x" * SIZE)
    with pytest.raises(StoreError, match=r"deadline_s is 0\.3"):
        list(store.list())


@pytest.mark.parametrize("way", ["small reads", "a large read", "a write"])
def test_a_cap_on_the_bandwidth_holds_for_the_whole_store(testbed: RunningTestbed, opened: Opened, way: str) -> None:
    """Nothing is faster than the cap allows; that nothing is slower than it must be is measured, not tested."""
    cap = 40 * MIB
    store = opened(bandwidth_bytes_per_s=cap)
    began_s = time.monotonic()
    if way == "small reads":
        assert read_all(store, times=4) == 0
        moved = 4 * 64 * SIZE
    elif way == "a large read":
        assert store.submit_read(Read(key="large", size_bytes=LARGE)).result(60).data == bytes(LARGE)
        moved = LARGE
    else:
        store.write("written", bytes(LARGE))
        moved = LARGE
    took_s = time.monotonic() - began_s
    assert took_s >= 0.9 * moved / cap - 0.1
