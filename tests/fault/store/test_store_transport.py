"""The loop that drives the connections: its bounds, cancelling, closing, and what happens when it fails itself."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import CancelledError, ThreadPoolExecutor, wait
from typing import Any

import pytest
from scripted_s3 import Fault, ScriptedS3

from torchbucket.config import MIB
from torchbucket.errors import TransportError
from torchbucket.store import Read, Store
from torchbucket.store.http import large_read
from torchbucket.store.http.checksums import ALGORITHMS
from torchbucket.store.http.part_sums import PartSums
from torchbucket.store.transport.loop import Loop
from torchbucket.store.transport.operation import Operation
from torchbucket.store.transport.transport import Transport

Opened = Callable[..., Store]


def test_no_more_requests_are_in_flight_than_allowed(server: ScriptedS3, opened: Opened) -> None:
    server.objects["k"] = b"x" * 1000
    store = opened(concurrency=4)
    futures = [store.submit_read(Read(key="k")) for _ in range(100)]
    assert all(future.result(30).data == b"x" * 1000 for future in futures)
    assert server.connections <= 4


def test_connections_are_used_again(server: ScriptedS3, opened: Opened) -> None:
    store = opened()
    for number in range(10):
        store.write(f"k{number}", b"v")
        store.read(f"k{number}")
        store.head(f"k{number}")
    assert server.connections == 1


def test_a_small_read_does_not_wait_behind_a_large_one(server: ScriptedS3, opened: Opened) -> None:
    content = bytes(60 * MIB)
    server.objects.update(large=content, small=b"s")
    store = opened(concurrency=1)
    large = store.submit_read(Read(key="large", size_bytes=len(content)))
    small = store.submit_read(Read(key="small", size_bytes=1))
    assert small.result(30).data == b"s"
    assert large.result(60).data == content
    kinds = [seen.key for seen in server.of("get_object")]
    assert kinds.index("small") <= 2
    assert len(kinds) == 13


def test_a_read_does_not_wait_behind_the_parts_of_a_write(
    server: ScriptedS3, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.objects["small"] = b"s"
    answered, queued = threading.Event(), threading.Semaphore(0)
    server.faults["upload_part"].append(Fault(until=answered))
    submit = Transport.submit

    def noted(transport: Transport, operations: Iterable[Operation[Any]], caller: Hashable = None) -> None:
        submit(transport, operations, caller)
        queued.release()

    monkeypatch.setattr(Transport, "submit", noted)
    store = opened(concurrency=1, memory_budget_bytes=100 * MIB)

    def write() -> None:
        with store.open_writer("large") as writer:
            writer.write(bytes(60 * MIB))

    with ThreadPoolExecutor(1) as thread:
        written = thread.submit(write)
        for _ in range(5):  # the upload's beginning, and parts that wait behind the first one
            assert queued.acquire(timeout=30)
        small = store.submit_read(Read(key="small", size_bytes=1))
        answered.set()
        assert small.result(30).data == b"s"
        written.result(60)
    kinds = [seen.kind for seen in server.seen]
    assert kinds.index("get_object") <= 3
    assert kinds.count("upload_part") == 12


def test_a_cancelled_read_is_never_sent(server: ScriptedS3, opened: Opened) -> None:
    server.objects["k"] = b"v"
    server.faults["get_object"].append(Fault(stall_after=-1))
    store = opened(concurrency=1, stall_timeout_s=1)
    first = store.submit_read(Read(key="k", size_bytes=1))
    others = [store.submit_read(Read(key="k", size_bytes=1)) for _ in range(5)]
    assert all(future.cancel() for future in others)
    assert first.result(30).data == b"v"
    with pytest.raises(CancelledError):
        others[0].result()
    assert server.count("get_object") == 2


def test_a_cancelled_large_read_is_cut(server: ScriptedS3, opened: Opened) -> None:
    content = bytes(60 * MIB)
    server.objects["k"] = content
    server.faults["get_object"].extend([Fault(), Fault(stall_after=1000)])
    memory = memoryview(bytearray(len(content)))
    store = opened(concurrency=1)
    future = store.submit_read(Read(key="k", into=memory, size_bytes=len(content)))
    assert future.cancel() is False
    with pytest.raises(CancelledError):
        future.result(30)
    assert server.count("get_object") <= 3
    server.objects["other"] = b"v"
    server.faults["get_object"].clear()
    assert store.read("other").data == b"v"


def test_a_large_read_that_is_cancelled_while_its_parts_are_planned_is_cut(
    server: ScriptedS3, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.objects["k"] = bytes(60 * MIB)
    go_on = threading.Event()
    server.faults["get_object"].append(Fault(until=go_on))
    future = opened(concurrency=1).submit_read(Read(key="k"))
    plan = large_read.plan_parts

    def cancelled_meanwhile(*targets: Any, **bounds: Any) -> Any:
        future.cancel()
        return plan(*targets, **bounds)

    monkeypatch.setattr(large_read, "plan_parts", cancelled_meanwhile)
    go_on.set()
    with pytest.raises(CancelledError):
        future.result(30)
    assert server.count("get_object") <= 2


def test_a_large_read_whose_check_fails_itself_is_not_waited_for(
    server: ScriptedS3, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = bytes(12 * MIB)
    server.objects["k"] = content
    server.object_headers["k"] = {"x-amz-checksum-crc32c": ALGORITHMS["crc32c"].of([content]).text}

    def out_of_memory(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(PartSums, "suspects", out_of_memory)
    with pytest.raises(MemoryError):
        opened().submit_read(Read(key="k", size_bytes=len(content))).result(20)


def test_closing_waits_for_what_was_begun(server: ScriptedS3, opened: Opened) -> None:
    server.objects["k"] = b"v"
    server.faults["get_object"].extend([Fault(status=500)] * 3)
    store = opened()
    futures = [store.submit_read(Read(key="k")) for _ in range(20)]
    store.close()
    assert all(future.done() and future.result().data == b"v" for future in futures)


def test_closing_waits_for_the_parts_that_a_reads_first_answer_asks_for(server: ScriptedS3, opened: Opened) -> None:
    server.objects["k"] = content = random.Random(8).randbytes(17 * MIB)
    go_on = threading.Event()
    server.faults["get_object"].append(Fault(until=go_on))
    before = {thread for thread in threading.enumerate() if thread.name == "torchbucket-transport"}
    store = opened()
    future = store.submit_read(Read(key="k"))  # of unknown size: the first part tells what else to ask for
    threading.Timer(0.2, go_on.set).start()
    store.close()
    assert future.done()
    assert future.result().data == content
    assert before >= {thread for thread in threading.enumerate() if thread.name == "torchbucket-transport"}


def test_what_a_closing_store_still_does_can_be_cancelled(server: ScriptedS3, opened: Opened) -> None:
    server.objects["k"] = bytes(17 * MIB)
    go_on = threading.Event()
    server.faults["get_object"].extend([Fault(until=go_on)] * 4)
    store = opened()
    future = store.submit_read(Read(key="k", size_bytes=17 * MIB))
    closing = threading.Event()
    stop = Loop.stop

    def stopping(loop: Loop, *, drain: bool = False) -> None:
        stop(loop, drain=drain)
        closing.set()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Loop, "stop", stopping)
        closer = threading.Thread(target=store.close)
        closer.start()
        assert closing.wait(30)
    future.cancel()
    with pytest.raises(CancelledError):
        future.result(30)
    closer.join(30)
    assert not closer.is_alive()
    go_on.set()


def test_a_loop_that_fails_takes_nobody_with_it_silently(
    server: ScriptedS3, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.objects["k"] = b"v"
    store = opened()
    store.read("k")
    collect = Loop._collect

    def fail(loop: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Loop, "_collect", fail)
    futures = [store.submit_read(Read(key="k")) for _ in range(10)]
    wait(futures, timeout=30)
    for future in futures:
        with pytest.raises(TransportError, match="ZeroDivisionError"):
            future.result(0)
    monkeypatch.setattr(Loop, "_collect", collect)
    assert store.read("k").data == b"v"


def test_a_callback_that_fails_is_one_callers_problem(server: ScriptedS3, opened: Opened) -> None:
    server.objects["k"] = b"v"
    store = opened()

    def fail(_: object) -> None:
        raise ZeroDivisionError

    future = store.submit_read(Read(key="k"))
    future.add_done_callback(fail)
    assert future.result(30).data == b"v"
    assert store.read("k").data == b"v"


def test_an_untrusted_certificate_is_said_at_once() -> None:
    from buckettestbed.launch import launch_testbed
    from torchbucket.store import StoreConfig, open_store

    with launch_testbed(buckets=["data"], tls=True) as testbed:
        store = open_store("s3://data", StoreConfig(endpoint=testbed.s3_endpoint, region="us-east-1"))
        with pytest.raises(TransportError, match=r"not trusted.*ca_bundle") as caught:
            store.read("k")
        assert caught.value.attempts == 1
        store.close()


def test_memory_and_files_need_neither_libcurl_nor_botocore() -> None:
    program = (
        "import sys\nfrom torchbucket.store import open_store\n"
        "open_store('memory://m').write('k', b'v')\nopen_store('file:///tmp')\n"
        "assert not {'pycurl', 'botocore', 'boto3', 'lightning'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
