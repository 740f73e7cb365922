"""Reads that are late are asked for a second time, and nothing else about them changes."""

from __future__ import annotations

import itertools
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, wait

import pytest

from buckettestbed.launch import RunningTestbed, launch_testbed
from torchbucket.config import MIB, RetryConfig, StoreConfig
from torchbucket.errors import NotFoundError, StoreError, TransportError
from torchbucket.store import Read, RequestRecord, Store, open_store

SIZE = 50_000
KEYS = [f"k{number:02}" for number in range(40)]
CONTENT = {key: random.Random(key).randbytes(SIZE) for key in KEYS}
LARGE = random.Random(9).randbytes(12 * MIB)
BOTH = ("k03", "k04")  # one is read into memory of the caller's
LATE_S = 60.0  # Longer than a test may take: whoever waits for the first request fails.

Opened = Callable[..., Store]


@pytest.fixture(scope="module")
def served() -> Iterator[RunningTestbed]:
    with launch_testbed(buckets=["data"], log_requests=10_000) as testbed:
        store = open_store("s3://data", StoreConfig(endpoint=testbed.s3_endpoint, anonymous=True))
        for key, content in CONTENT.items():
            store.write(key, content)
        store.write("large", LARGE)
        store.close()
        # So that a read is late after 90 ms and not because the machine is busy.
        testbed.set_network({"first_byte_s": 0.06})
        yield testbed


@pytest.fixture
def testbed(served: RunningTestbed) -> Iterator[RunningTestbed]:
    yield served
    served.set_faults("none")


@pytest.fixture
def opened(testbed: RunningTestbed, records: list[RequestRecord]) -> Iterator[Opened]:
    """Opens stores that know, from reads that were not struck, how long a first byte takes."""
    stores = []

    def make(**fields: object) -> Store:
        settings = {"endpoint": testbed.s3_endpoint, "anonymous": True, "part_size_bytes": 5 * MIB, **fields}
        store = open_store("s3://data", StoreConfig(**settings), observer=records.append)
        stores.append(store)
        testbed.set_faults("none")
        read_all(store)
        records.clear()
        testbed.reset_counts()
        return store

    yield make
    for store in stores:
        store.close()


def read_all(store: Store) -> None:
    """Read every object, each second one into memory of the caller's."""
    memories = {key: memoryview(bytearray(SIZE)) if number % 2 else None for number, key in enumerate(KEYS)}
    futures = {key: store.submit_read(Read(key=key, size_bytes=SIZE, into=memories[key])) for key in KEYS}
    for key, future in futures.items():
        assert future.result(30).data == CONTENT[key]


def late(key: str, seconds: float = LATE_S, **rule: object) -> dict[str, object]:
    """The first read of a key is late."""
    return {"kind": "delay", "operations": ["get_object", "get_object_range"], "key": key, "seconds": seconds} | (
        rule or {"nth": 1}
    )


def until(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 50
    while not condition():
        assert time.monotonic() < deadline_s, "what was waited for did not happen"
        time.sleep(0.01)


def test_a_late_read_is_asked_for_again(testbed: RunningTestbed, opened: Opened, records: list[RequestRecord]) -> None:
    store = opened()
    testbed.set_faults([late("k03"), late("k04"), late("k3?")])
    read_all(store)
    store.close()
    # A busy machine may make others late as well.
    assert {record.key for record in records if record.hedge} >= {"k03", "k04", "k30"}
    first_cut = {record.key for record in records if record.cut and not record.hedge}
    assert first_cut >= {"k03", "k04", "k30"}
    assert all(record.error is None for record in records)
    counted = [record for record in records if not record.cut]
    assert sorted(record.key for record in counted) == KEYS
    assert sum(record.bytes_received for record in counted) == 40 * SIZE


def test_a_second_request_that_is_late_as_well_is_replaced(
    testbed: RunningTestbed, opened: Opened, records: list[RequestRecord]
) -> None:
    store = opened()
    testbed.set_faults([late(key, nth=nth) for key in BOTH for nth in (1, 2)])
    read_all(store)
    store.close()
    for key in BOTH:
        assert sum(record.hedge for record in records if record.key == key) >= 2


def test_more_late_reads_than_the_account_allows_at_once_wait_their_turn(
    testbed: RunningTestbed, opened: Opened
) -> None:
    store = opened()
    testbed.set_faults([late(key) for key in KEYS[:12]])
    futures = [store.submit_read(Read(key=key, size_bytes=SIZE)) for key in KEYS[:12]]

    def earned() -> bool:
        read_all(store)  # What is answered in time earns the requests that some lack.
        return all(future.done() for future in futures)

    until(earned)
    assert [future.result(30).data for future in futures] == [CONTENT[key] for key in KEYS[:12]]


def test_without_a_share_nothing_is_asked_twice(
    testbed: RunningTestbed, opened: Opened, records: list[RequestRecord]
) -> None:
    store = opened(hedge_share=0)
    testbed.set_faults([late("k03", 1.0)])
    read_all(store)
    store.close()
    assert sorted(record.key for record in records) == KEYS


def test_second_requests_end_with_the_budget(
    testbed: RunningTestbed, opened: Opened, records: list[RequestRecord]
) -> None:
    store = opened(hedge_share=0.001)
    testbed.set_faults([late("*", 0.7, probability=1.0)])
    read_all(store)
    store.close()
    assert 1 <= sum(record.hedge for record in records) <= 8


def test_under_throttling_nothing_is_asked_twice(
    testbed: RunningTestbed, opened: Opened, records: list[RequestRecord]
) -> None:
    store = opened(retry=RetryConfig(initial_s=0.01, maximum_s=0.05, max_attempts=100))
    testbed.set_faults([{"kind": "error", "status": 503, "probability": 0.6, "methods": ["GET"]}])
    until(lambda: bool(read_all(store)) or store._transport._loop._pace.strained)  # type: ignore[attr-defined]  # no public sign of it
    testbed.set_faults([late("k03", 0.5)])
    records.clear()
    read_all(store)
    assert not any(record.hedge for record in records)


def test_the_first_may_still_win(testbed: RunningTestbed, opened: Opened, records: list[RequestRecord]) -> None:
    store = opened()
    first, others = [late(key, 1.5) for key in BOTH], [late(key, LATE_S, probability=1.0, after=1) for key in BOTH]
    testbed.set_faults([*first, *others])
    read_all(store)
    store.close()
    for key in BOTH:
        ends = Counter((record.hedge, record.cut) for record in records if record.key == key)
        assert set(ends) == {(False, False), (True, True)}
        assert ends[False, False] == 1


def test_a_second_request_that_fails_is_no_failure(
    testbed: RunningTestbed, opened: Opened, records: list[RequestRecord]
) -> None:
    store = opened()
    testbed.set_faults([late("k03", 1.5), {"kind": "error", "status": 500, "key": "k03", "nth": 2}])
    read_all(store)
    store.close()
    assert (True, 500) in [(record.hedge, record.status) for record in records if record.key == "k03"]


def test_a_second_request_that_breaks_is_tried_again(
    testbed: RunningTestbed, opened: Opened, records: list[RequestRecord]
) -> None:
    """The first is given up when the second answers; then that one breaks inside its body."""
    store = opened()
    broken = [{"kind": "truncate", "key": key, "after_bytes": 20_000, "nth": 2} for key in BOTH]
    testbed.set_faults([*map(late, BOTH), *broken])
    read_all(store)
    store.close()
    for key in BOTH:  # A busy machine may make the last one late as well.
        assert Counter((r.hedge, r.cut, r.error is None) for r in records if r.key == key) >= Counter(
            {(False, True, True): 1, (True, False, False): 1}
        )


def test_an_object_overwritten_between_the_two_is_one_or_the_other(testbed: RunningTestbed, opened: Opened) -> None:
    store = opened()
    other = open_store("s3://data", store.config)  # type: ignore[attr-defined]  # every store has it
    before, after = CONTENT["k05"], CONTENT["k05"][::-1]
    try:
        for size_bytes, into in itertools.product((SIZE, None), (False, True)):
            testbed.set_faults([late("k05")])
            memory = memoryview(bytearray(SIZE)) if into else None
            future = store.submit_read(Read(key="k05", into=memory, size_bytes=size_bytes))
            other.write("k05", after)
            assert bytes(future.result(30).data) in (before, after)
            other.write("k05", before)
    finally:
        other.write("k05", before)
        other.close()


def test_the_parts_of_a_large_read_are_asked_for_again(
    testbed: RunningTestbed, opened: Opened, records: list[RequestRecord]
) -> None:
    store = opened()
    target = bytearray(len(LARGE))
    testbed.set_faults([late("large", nth=2)])
    data = store.submit_read(Read(key="large", into=memoryview(target), size_bytes=len(LARGE))).result(30).data
    assert data == LARGE
    store.close()
    assert sum(record.hedge for record in records) >= 1


def test_the_parts_of_a_read_into_many_pieces_are_asked_for_again(
    testbed: RunningTestbed, opened: Opened, records: list[RequestRecord]
) -> None:
    store = opened()
    starts = range(7, len(LARGE) - 50_000, 100_000)
    targets = [(start, memoryview(bytearray(30_000 + start % 7))) for start in starts]
    testbed.set_faults([late("large", nth=2)])
    store.submit_read_into("large", targets).result(30)
    assert all(memory == LARGE[start : start + len(memory)] for start, memory in targets)
    store.close()
    assert sum(record.hedge for record in records) >= 1


def test_nothing_is_written_into_a_target_after_the_read(testbed: RunningTestbed, opened: Opened) -> None:
    """The first answers at last, into memory that the caller uses for something else by then."""
    store = opened()
    testbed.set_faults([late(key, 0.4, probability=1.0, times=1) for key in KEYS[:6]])
    targets = [bytearray(SIZE) for _ in KEYS[:6]]
    for key, target in zip(KEYS, targets, strict=False):
        store.submit_read(Read(key=key, into=memoryview(target), size_bytes=SIZE)).result(30)
        assert target == CONTENT[key]
        target[:] = bytes(SIZE)
    time.sleep(0.6)
    assert not any(any(target) for target in targets)


@pytest.mark.parametrize("both", [False, True])
def test_a_late_read_can_be_given_up(testbed: RunningTestbed, opened: Opened, both: bool) -> None:
    """Interrupting a caller cuts its read, whether or not its second request is on the way; the store works on."""
    store = opened()
    testbed.set_faults([late("k03", probability=1.0) if both else late("k03")])
    future = store.submit_read(Read(key="k03", size_bytes=SIZE))
    if both:
        until(lambda: testbed.counts()["requests"].get("get_object", 0) >= 2 or len(testbed.requests()) > 2)
    transport = store._transport  # type: ignore[attr-defined]  # what a large read or a writer does
    [operation] = [one.operation for one in transport._loop._engine.active() if not one.hedge] or [None]
    if operation is not None:
        transport.drop((operation,))
        with pytest.raises((StoreError, CancelledError)):
            future.result(30)
    else:
        future.result(30)
    testbed.set_faults("none")
    read_all(store)


def test_closing_at_once_with_two_requests_on_the_way(testbed: RunningTestbed, opened: Opened) -> None:
    store = opened()
    testbed.set_faults([late("k03", probability=1.0)])
    future = store.submit_read(Read(key="k03", size_bytes=SIZE))
    until(lambda: future.done() or any(one.hedge for one in store._transport._loop._engine.active()))  # type: ignore[attr-defined]  # no public sign of it
    store._transport.close(drain=False)  # type: ignore[attr-defined]  # as at the interpreter's exit
    with pytest.raises(TransportError, match="closed meanwhile"):
        future.result(30)


def test_an_object_that_is_gone_is_not_found_whoever_asks(
    testbed: RunningTestbed, opened: Opened, records: list[RequestRecord]
) -> None:
    store = opened()
    testbed.set_faults([late("missing")])
    with pytest.raises(NotFoundError):
        store.submit_read(Read(key="missing", size_bytes=SIZE)).result(30)
    store.close()
    assert Counter((record.hedge, record.cut) for record in records) >= Counter({(False, True): 1, (True, False): 1})


def test_a_body_that_stops_moving_is_asked_for_from_there(
    testbed: RunningTestbed, opened: Opened, records: list[RequestRecord]
) -> None:
    store = opened()
    rule = {"kind": "stall", "seconds": LATE_S, "after_bytes": 20_000, "nth": 1}
    testbed.set_faults([{**rule, "key": key} for key in BOTH])
    read_all(store)
    store.close()
    for key in BOTH:
        struck = [record for record in records if record.key == key and not record.cut]
        assert [record.error is None for record in struck] == [False, True]
        assert sum(record.bytes_received for record in struck) == SIZE
        assert "no byte came any more" in str(struck[0].error)


def test_many_threads_under_a_slow_tail(testbed: RunningTestbed, opened: Opened) -> None:
    store = opened()
    testbed.set_faults([late("*", 1.5, probability=0.03)])
    failures: list[BaseException] = []

    def read() -> None:
        try:
            for _ in range(3):
                read_all(store)
        except BaseException as error:  # noqa: BLE001  # reported by the test
            failures.append(error)

    threads = [threading.Thread(target=read) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_fork_while_two_requests_are_on_the_way(testbed: RunningTestbed, opened: Opened) -> None:
    store = opened()
    testbed.set_faults([late("k03", 0.5, probability=1.0)])
    future = store.submit_read(Read(key="k03", size_bytes=SIZE))
    until(lambda: future.done() or any(one.hedge for one in store._transport._loop._engine.active()))  # type: ignore[attr-defined]  # no public sign of it
    child = os.fork()
    if child == 0:
        good = False
        try:
            good = store.submit_read(Read(key="k07", size_bytes=SIZE)).result(30).data == CONTENT["k07"]
        finally:
            os._exit(0 if good else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert future.result(30).data == CONTENT["k03"]
    assert not wait([future], timeout=0).not_done
