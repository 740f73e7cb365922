"""Memory that is filled from many places of an object holds the right bytes whatever breaks, or the read fails."""

from __future__ import annotations

import random
import threading
import tracemalloc
from collections.abc import Callable
from concurrent.futures import CancelledError
from itertools import pairwise

import pytest
from scripted_s3 import Fault, ScriptedS3, error_body

from torchbucket import ChecksumError, ObjectChangedError, PermissionDeniedError, TransportError
from torchbucket.config import MIB, RetryConfig
from torchbucket.store import Read, RequestRecord, Store
from torchbucket.store.http.checksums import ALGORITHMS
from torchbucket.store.protocol import Target

CONTENT = random.Random(5).randbytes(17 * MIB + 3)
Opened = Callable[..., Store]


def memory_for(ranges: list[tuple[int, int]]) -> list[Target]:
    return [(start, memoryview(bytearray(stop - start))) for start, stop in ranges]


def assert_filled(targets: list[Target], content: bytes = CONTENT) -> None:
    for start, memory in targets:
        assert memory == content[start : start + len(memory)], start


def tensors(count: int = 400) -> list[Target]:
    """Pieces that are together the whole object, as a checkpoint's tensors are, in another order."""
    cuts = sorted({0, len(CONTENT), *random.Random(6).sample(range(len(CONTENT)), count)})
    ranges = list(pairwise(cuts))
    random.Random(7).shuffle(ranges)
    return memory_for(ranges)


def asked(server: ScriptedS3) -> list[str]:
    return sorted(seen.headers["range"] for seen in server.of("get_object"))


def test_neighbours_are_asked_for_together_and_those_far_apart_are_not(server: ScriptedS3, opened: Opened) -> None:
    server.objects["k"] = CONTENT
    targets = memory_for([(0, 100), (200_100, 200_200), (150, 160), (9_000_000, 9_000_001)])
    opened().submit_read_into("k", targets).result(60)
    assert_filled(targets)
    assert asked(server) == ["bytes=0-200199", "bytes=9000000-9000000"]
    server.seen.clear()
    opened().submit_read_into("k", targets, gap_bytes=49).result(60)
    assert asked(server) == ["bytes=0-99", "bytes=150-159", "bytes=200100-200199", "bytes=9000000-9000000"]


@pytest.mark.parametrize("size_known", [False, True])
@pytest.mark.parametrize(
    "fault",
    [
        Fault(status=500),
        Fault(reset_after=1 << 20),
        Fault(close_after=777_777),
        Fault(close_after=0),
        Fault(status=429),
    ],
)
def test_what_breaks_is_fetched_again_from_there(
    server: ScriptedS3, opened: Opened, fault: Fault, size_known: bool
) -> None:
    server.objects["k"] = CONTENT
    server.faults["get_object"].extend([fault] * 3)
    targets = tensors()
    opened().submit_read_into("k", targets, size_bytes=len(CONTENT) if size_known else None).result(60)
    assert_filled(targets)


def test_a_server_that_ignores_ranges_fills_the_targets_too(server: ScriptedS3, opened: Opened) -> None:
    server.objects["k"] = CONTENT
    server.ignores_ranges = True
    targets = memory_for([(5, 100), (3_000_000, 9_000_000), (90, 1000)])
    opened().submit_read_into("k", targets).result(60)
    assert_filled(targets)


def test_an_object_overwritten_midway_is_never_mixed(server: ScriptedS3, opened: Opened) -> None:
    server.objects["k"] = CONTENT
    server.faults["get_object"].extend([Fault(), Fault(replace_object=CONTENT[::-1], status=500)])
    with pytest.raises(ObjectChangedError, match="s3://bucket/k"):
        opened(concurrency=1).submit_read_into("k", tensors()).result(60)


def test_one_part_that_fails_fails_the_whole_and_no_more_is_asked(server: ScriptedS3, opened: Opened) -> None:
    server.objects["k"] = CONTENT
    server.faults["get_object"].extend([Fault(), Fault(status=403, body=error_body("AccessDenied"))])
    targets = memory_for([(start, start + 10) for start in range(0, 17 * MIB, MIB)])
    with pytest.raises(PermissionDeniedError):
        opened(concurrency=1).submit_read_into("k", targets).result(60)
    assert server.count("get_object") < 8


def test_cancelling_drops_what_is_left_and_frees_the_memory(server: ScriptedS3, opened: Opened) -> None:
    server.objects["k"] = CONTENT
    answer = threading.Event()
    server.faults["get_object"].append(Fault(until=answer))
    targets = memory_for([(start, start + 10) for start in range(0, 17 * MIB, MIB)])
    full: list[int] = []
    future = opened(concurrency=1).submit_read_into("k", targets, filled=full.append)
    future.cancel()
    with pytest.raises(CancelledError):
        future.result(30)
    answer.set()
    assert full == []
    assert not any(any(memory) for _, memory in targets)
    assert server.count("get_object") <= 1


@pytest.mark.parametrize("damaged", [1, 2])
def test_a_whole_object_in_pieces_is_held_against_its_checksum(
    server: ScriptedS3, opened: Opened, damaged: int
) -> None:
    server.objects["k"] = CONTENT
    checksum = ALGORITHMS["crc64nvme"].of([CONTENT]).text
    server.object_headers["k"] = {"x-amz-checksum-crc64nvme": checksum}
    etag = opened().head("k").version
    wrong = Fault(
        status=206,
        body=bytes(5 * MIB),
        headers={
            "content-range": f"bytes 0-{5 * MIB - 1}/{len(CONTENT)}",
            "etag": str(etag),
        },
    )
    server.faults["get_object"].extend([wrong])
    targets = tensors()
    store = opened(concurrency=1, hedge_share=0.0)
    if damaged == 2:
        server.object_headers["k"] = {"x-amz-checksum-crc64nvme": ALGORITHMS["crc64nvme"].of([b"another"]).text}
        with pytest.raises(ChecksumError, match="ranges together"):
            store.submit_read_into("k", targets, size_bytes=len(CONTENT)).result(60)
        return
    full: list[int] = []
    store.submit_read_into("k", targets, size_bytes=len(CONTENT), filled=full.append).result(60)
    assert_filled(targets)
    assert set(full) == set(range(len(targets)))


@pytest.mark.parametrize("start", [0, 5, 60 * MIB])
def test_a_server_that_ignores_ranges_costs_a_read_no_memory(
    server: ScriptedS3, opened: Opened, records: list[RequestRecord], start: int
) -> None:
    content = bytes(63 * MIB) + b"the end"
    server.objects["k"] = content
    server.ignores_ranges = True
    store = opened()
    store.head("k")
    tracemalloc.start()
    try:
        data = store.submit_read(Read(key="k", start=start, stop=start + 1000)).result(60).data
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert data == content[start : start + 1000]
    store.close()
    received = sum(record.bytes_received for record in records)
    assert received < start + 4 * MIB
    assert peak < 8 * MIB  # the server's thread sends views of what it holds


@pytest.mark.parametrize("kind", ["read of nothing", "head"])
def test_a_description_without_a_size_is_an_error_and_no_empty_object(
    server: ScriptedS3, opened: Opened, kind: str
) -> None:
    server.objects["k"] = CONTENT
    server.omits_length = True
    store = opened(retry=RetryConfig(initial_s=0.001, max_attempts=2))
    with pytest.raises(TransportError, match="Content-Length"):
        store.head("k") if kind == "head" else store.read("k", start=3, stop=3)


@pytest.mark.parametrize("size_known", [False, True])
@pytest.mark.parametrize("size_bytes", [MIB, 3 * MIB, 5 * MIB, 17 * MIB])
def test_a_body_is_in_memory_once(server: ScriptedS3, opened: Opened, size_bytes: int, size_known: bool) -> None:
    content = CONTENT[:size_bytes]
    server.objects["k"] = content
    store = opened(concurrency=1)
    store.head("k")
    read = Read(key="k", size_bytes=size_bytes if size_known else None)
    tracemalloc.start()
    try:
        data = store.submit_read(read).result(60).data
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert type(data) is bytes
    assert data == content
    # Besides the body a chunk of half a MiB, and the part that the server cuts out to send.
    assert peak_bytes < size_bytes + MIB + (6 * MIB if size_bytes > 5 * MIB else 0)
