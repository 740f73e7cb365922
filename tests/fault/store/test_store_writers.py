"""Many writers at once: bounded by one budget, never waiting for each other, and given up without delay."""

from __future__ import annotations

import logging
import pickle
import random
import threading
import weakref
from collections.abc import Callable, Hashable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest
from scripted_s3 import Fault, ScriptedS3, error_body

from torchbucket.config import MIB
from torchbucket.errors import StoreError
from torchbucket.store import Store
from torchbucket.store.http import part_upload, part_writer
from torchbucket.store.http.memory_budget import CHUNK_BYTES, MemoryShare, writers_memory
from torchbucket.store.s3.dialect import S3Dialect
from torchbucket.store.transport.operation import Operation
from torchbucket.store.transport.transport import Transport

Opened = Callable[..., Store]
CONTENT = random.Random(16).randbytes(11 * MIB + 5)
PIECE = 700_001
WRITERS = 16


@pytest.fixture
def most_bytes(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The most memory that writers held at once, noted whenever one asked for more."""
    seen = [0]
    take = MemoryShare.take

    def noted(share: MemoryShare, most_bytes: int) -> bytearray | None:
        chunk = take(share, most_bytes)
        with writers_memory.changed:
            seen[0] = max(seen[0], writers_memory.lent_bytes + len(writers_memory.spare) * CHUNK_BYTES)
            assert writers_memory.lent_bytes <= writers_memory.taken_bytes
        return chunk

    monkeypatch.setattr(MemoryShare, "take", noted)
    yield seen
    assert (writers_memory.taken_bytes, writers_memory.lent_bytes) == (0, 0)


def pieces() -> Iterator[bytes]:
    for start in range(0, len(CONTENT), PIECE):
        yield CONTENT[start : start + PIECE]


def test_sixteen_writers_in_threads_stay_within_the_budget_and_all_end(
    server: ScriptedS3, opened: Opened, most_bytes: list[int]
) -> None:
    server.faults["upload_part"].extend([Fault(status=500, body=error_body("InternalError"))] * 8)
    store, together = opened(memory_budget_bytes=WRITERS * 5 * MIB), threading.Barrier(WRITERS)

    def write(number: int) -> None:
        with store.open_writer(f"k{number}") as writer:
            together.wait(60)
            writer.writelines(pieces())

    with ThreadPoolExecutor(WRITERS) as threads:
        list(threads.map(write, range(WRITERS)))
    assert server.objects == {f"k{number}": CONTENT for number in range(WRITERS)}
    assert 5 * MIB < most_bytes[0] <= WRITERS * 5 * MIB


def test_sixteen_writers_taking_turns_in_one_thread_never_wait_for_each_other(
    server: ScriptedS3, opened: Opened, most_bytes: list[int]
) -> None:
    """All of the budget is promised, and each holds a part that is being filled while the others are written to."""
    store = opened(memory_budget_bytes=WRITERS * 5 * MIB)
    with ExitStack() as stack:
        writers = [stack.enter_context(store.open_writer(f"k{number}")) for number in range(WRITERS)]
        for piece in pieces():
            for writer in writers:
                writer.write(piece)
    assert server.objects == {f"k{number}": CONTENT for number in range(WRITERS)}
    assert 75 * MIB < most_bytes[0] <= WRITERS * 5 * MIB


def test_stores_share_the_budget_of_the_process(server: ScriptedS3, opened: Opened, most_bytes: list[int]) -> None:
    first, second = opened(memory_budget_bytes=14 * MIB), opened(memory_budget_bytes=14 * MIB)
    with first.open_writer("a") as one, second.open_writer("b") as other:
        with pytest.raises(StoreError, match=r"2 writers are open .* 5242880, .*budget_bytes is 14680064"):
            second.open_writer("c")
        second.open_writer("d", size_hint=20_000).abort()
        one.writelines(pieces())
        other.writelines(pieces())
    assert server.objects == {"a": CONTENT, "b": CONTENT}
    assert most_bytes[0] <= 14 * MIB


def test_a_writer_waits_for_its_own_parts_where_memory_is_short(
    server: ScriptedS3, opened: Opened, most_bytes: list[int]
) -> None:
    answered = threading.Event()
    server.faults["upload_part"].extend([Fault(until=answered)] * 2)
    store = opened(memory_budget_bytes=10 * MIB)
    with ThreadPoolExecutor(1) as thread:

        def write() -> None:
            with store.open_writer("k") as writer:
                writer.writelines(pieces())

        written = thread.submit(write)
        while server.count("upload_part") < 2:
            assert not written.done()
        assert writers_memory.lent_bytes == 10 * MIB
        answered.set()
        written.result(60)
    assert server.objects == {"k": CONTENT}
    assert most_bytes[0] <= 10 * MIB


def test_a_writer_opens_once_parts_of_another_have_arrived(
    server: ScriptedS3, opened: Opened, most_bytes: list[int]
) -> None:
    answered = threading.Event()
    server.faults["upload_part"].extend([Fault(until=answered)] * 2)
    store = opened(memory_budget_bytes=14 * MIB)
    first = store.open_writer("first")
    first.writelines(pieces())
    assert writers_memory.lent_bytes > 9 * MIB
    with ThreadPoolExecutor(1) as thread:
        opening = thread.submit(store.open_writer, "second")
        while writers_memory.taken_bytes <= 14 * MIB:  # it counts itself in, and waits
            assert not opening.done()
        answered.set()
        with first, opening.result(60) as second:
            second.writelines(pieces())
    assert server.objects == {"first": CONTENT, "second": CONTENT}
    assert most_bytes[0] <= 14 * MIB


@pytest.mark.parametrize(("size_hint", "bound"), [(None, 64 << 10), (20 << 10, 20 << 10), (1 << 10, 65 << 10)])
def test_a_small_object_takes_little_memory(
    server: ScriptedS3, opened: Opened, most_bytes: list[int], size_hint: int | None, bound: int
) -> None:
    with opened().open_writer("k", size_hint=size_hint) as writer:
        for _ in range(20):
            writer.write(bytes(1 << 10))
    assert server.objects == {"k": bytes(20 << 10)}
    assert most_bytes[0] <= bound


@pytest.mark.parametrize("size_hint", [0, 1000, len(CONTENT), 50 * MIB])
def test_a_hint_may_be_wrong(server: ScriptedS3, opened: Opened, most_bytes: list[int], size_hint: int) -> None:
    with opened().open_writer("k", size_hint=size_hint) as writer:
        writer.write(CONTENT)
    assert server.objects == {"k": CONTENT}
    assert most_bytes[0] <= 20 * MIB


def test_more_than_was_hinted_needs_memory_that_nobody_was_promised(server: ScriptedS3, opened: Opened) -> None:
    store = opened(memory_budget_bytes=5 * MIB + 1000)
    with store.open_writer("large") as large:
        small = store.open_writer("small", size_hint=1000)
        small.write(bytes(1000))
        with pytest.raises(StoreError, match=r"size_hint of 1000 bytes.*larger hint or none"):
            small.write(b"x")
        large.write(CONTENT)
    assert server.objects == {"large": CONTENT}


def test_the_parts_of_a_hinted_object_are_few_enough(server: ScriptedS3, opened: Opened) -> None:
    writer = opened(memory_budget_bytes=600 * MIB).open_writer("k", size_hint=5 << 40)
    writer.abort()
    with pytest.raises(StoreError, match=r"this one needs 550502400, and .* is 20971520"):
        opened().open_writer("k", size_hint=5 << 40)
    assert server.seen == []


@pytest.mark.parametrize("streamed", [True, False])
def test_an_object_of_too_many_parts_is_an_error_that_leaves_nothing(
    server: ScriptedS3, opened: Opened, monkeypatch: pytest.MonkeyPatch, streamed: bool
) -> None:
    monkeypatch.setattr(S3Dialect, "most_parts", 2)
    store = opened()
    if streamed:
        too_many = pytest.raises(StoreError, match=r"more than 2 parts; give open_writer its size_hint")
        with too_many, store.open_writer("k") as writer:
            writer.write(CONTENT)
        with store.open_writer("k", size_hint=len(CONTENT)) as writer:
            writer.write(CONTENT)
    else:
        store.write("k", CONTENT)
    assert server.objects == {"k": CONTENT}
    assert server.uploads == {}
    assert sorted(len(part.body) for part in server.of("upload_part")[-2:]) == [len(CONTENT) - 6 * MIB, 6 * MIB]


def test_a_transport_that_cannot_begin_fails_the_write_at_once(
    server: ScriptedS3, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit = Transport.submit

    def failing(transport: Transport, operations: Iterable[Operation[Any]], caller: Hashable = None) -> None:
        if caller is not None:
            raise RuntimeError("can't start new thread")
        submit(transport, operations, caller)

    monkeypatch.setattr(Transport, "submit", failing)
    with pytest.raises(RuntimeError, match="new thread"), opened().open_writer("k") as writer:
        writer.write(CONTENT)
    assert (writers_memory.taken_bytes, writers_memory.lent_bytes) == (0, 0)
    assert server.uploads == {}


# -- giving up --------------------------------------------------------------------------------------------------------


def test_writers_of_a_silent_server_are_given_up_together_and_hide_nothing(
    server: ScriptedS3, opened: Opened, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Each abort would wait for its answer, with all its attempts, before the next one is even sent."""
    monkeypatch.setattr(part_upload, "_ABORT_PATIENCE_S", 0.2)
    answered = threading.Event()
    server.faults["abort_upload"].extend([Fault(until=answered)] * 2 * WRITERS)
    store = opened(memory_budget_bytes=200 * MIB)
    with pytest.raises(ZeroDivisionError), ExitStack() as stack:
        for number in range(WRITERS):
            writer = stack.enter_context(store.open_writer(f"k{number}"))
            writer.write(bytes(5 * MIB + 1))
        raise ZeroDivisionError
    assert not answered.is_set()
    assert len([record for record in caplog.records if "could not be removed" in record.message]) == WRITERS
    answered.set()
    store.close()  # what was handed over goes on
    assert server.uploads == {}
    assert server.objects == {}


def test_a_refused_abort_neither_masks_an_error_nor_keeps_others_from_theirs(
    server: ScriptedS3, opened: Opened, caplog: pytest.LogCaptureFixture
) -> None:
    server.faults["abort_upload"].append(Fault(status=403, body=error_body("AccessDenied")))
    store = opened()
    with pytest.raises(ZeroDivisionError), ExitStack() as stack:
        for number in range(3):
            writer = stack.enter_context(store.open_writer(f"k{number}"))
            writer.write(bytes(5 * MIB + 1))
        raise ZeroDivisionError
    assert len(server.uploads) == 1
    (left,) = server.uploads
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert left in caplog.text
    assert "s3://bucket/k2" in caplog.text


def test_a_failed_write_is_told_and_not_what_its_abort_met(server: ScriptedS3, opened: Opened) -> None:
    server.faults["upload_part"].append(Fault(status=400, body=error_body("EntityTooLarge")))
    server.faults["abort_upload"].extend([Fault(status=403, body=error_body("AccessDenied"))] * 2)
    # One part at a time: another would still be on its way, and meet the second fault in the place of its own write.
    store = opened(concurrency=1)
    with pytest.raises(StoreError, match="EntityTooLarge"), store.open_writer("k") as writer:
        writer.write(CONTENT)
    server.faults["upload_part"].append(Fault(status=400, body=error_body("EntityTooLarge")))
    server.faults["abort_upload"].extend([Fault(status=403, body=error_body("AccessDenied"))] * 2)
    with pytest.raises(StoreError, match="EntityTooLarge"):
        store.write("k", CONTENT)
    assert server.objects == {}


def test_the_exit_aborts_every_open_writer_whatever_one_meets(server: ScriptedS3, opened: Opened) -> None:
    server.faults["abort_upload"].append(Fault(status=403, body=error_body("AccessDenied")))
    store = opened()
    writers = [store.open_writer(f"k{number}") for number in range(3)]
    for writer in writers:
        writer.write(bytes(5 * MIB + 1))
    part_writer.abort_open_writers()
    assert server.count("abort_upload") == 3
    assert len(server.uploads) == 1
    assert all(writer.closed for writer in writers)


def test_the_exit_aborts_every_open_writer_though_one_has_no_thread_for_it(
    server: ScriptedS3, opened: Opened, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    writers = [opened().open_writer(f"k{number}") for number in range(3)]
    for writer in writers:
        writer.write(bytes(5 * MIB + 1))
    submit = Transport.submit
    tried: list[object] = []

    def failing(transport: Transport, operations: Any, caller: Any = None) -> None:
        tried.append(transport)
        if len(tried) == 1:
            raise RuntimeError("can't start new thread")
        submit(transport, operations, caller)

    monkeypatch.setattr(Transport, "submit", failing)
    part_writer.abort_open_writers()
    assert len(tried) == 3
    assert len(server.uploads) == 1
    assert writers_memory.taken_bytes == 0
    assert "may have left something behind: can't start new thread" in caplog.text


def test_a_writer_that_sent_nothing_is_given_up_without_a_thread(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the interpreter's exit none can be started any more."""

    def none(*_: object) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", none)
    writer = opened().open_writer("k")
    writer.write(b"little")
    part_writer.abort_open_writers()
    assert writer.closed
    writer = opened().open_writer("k")
    writer.write(b"little")
    writer.abort()


def test_a_forgotten_writer_aborts_at_once_though_parts_are_on_their_way(server: ScriptedS3, opened: Opened) -> None:
    answered = threading.Event()
    server.faults["upload_part"].append(Fault(until=answered))
    store = opened()
    writer = store.open_writer("k")
    writer.write(CONTENT)
    gone = weakref.ref(writer)
    del writer
    assert gone() is None
    answered.set()
    store.close()
    assert server.uploads == {}
    assert (writers_memory.taken_bytes, writers_memory.lent_bytes) == (0, 0)


def test_pickle_writes_to_a_writer(server: ScriptedS3, opened: Opened) -> None:
    made = {"weights": bytearray(6 * MIB), "step": 3}
    with opened().open_writer("k") as writer:
        pickle.dump(made, writer, protocol=5)
    assert pickle.loads(server.objects["k"]) == made
