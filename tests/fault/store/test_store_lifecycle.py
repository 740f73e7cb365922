"""From the first operation to the last: who keeps a transport alive, how it ends, and who may wait for it."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable
from concurrent.futures import wait
from typing import Any

import pytest
from scripted_s3 import Fault, ScriptedS3

from torchbucket.config import MIB
from torchbucket.errors import StoreError
from torchbucket.store import Read, Store, StoreConfig, open_store
from torchbucket.store.transport import loop as loop_module
from torchbucket.store.transport.curl_engine import CurlEngine
from torchbucket.store.wrappers import LimitedStore, OperationLimit

pytestmark = pytest.mark.timeout(120)

Opened = Callable[..., Store]


def transport_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "torchbucket-transport"]


def ends(condition: Callable[[], bool]) -> bool:
    limit_s = time.monotonic() + 60
    while not condition():
        if time.monotonic() > limit_s:
            return False
        time.sleep(0.005)
    return True


def unowned(server: ScriptedS3, **fields: Any) -> Store:
    return open_store("s3://bucket", StoreConfig(endpoint=server.endpoint, region="us-east-1", **fields))


def test_a_read_outlives_its_store_and_then_all_of_it_ends(server: ScriptedS3) -> None:
    server.objects["k"] = b"v"
    go_on = threading.Event()
    server.faults["get_object"].append(Fault(until=go_on))
    before = set(transport_threads())
    future = unowned(server).submit_read(Read(key="k", size_bytes=1))
    gc.collect()
    go_on.set()
    assert future.result(30).data == b"v"
    del future
    assert ends(lambda: set(transport_threads()) <= before)


def test_a_loop_that_is_idle_ends_with_its_connections_and_the_next_read_begins_another(
    server: ScriptedS3, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_module, "_IDLE_S", 0.05)
    server.objects["k"] = b"v"
    before = set(transport_threads())
    store = opened()
    for number in range(1, 4):
        assert store.read("k").data == b"v"
        assert ends(lambda: set(transport_threads()) <= before)
        assert server.connections == number


def test_what_is_read_at_the_moment_an_idle_loop_ends_is_read(
    server: ScriptedS3, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_module, "_IDLE_S", 0.01)
    server.objects["k"] = b"v"
    store = opened()
    for number in range(60):
        assert store.submit_read(Read(key="k")).result(30).data == b"v"
        time.sleep(0.005 + number * 0.0002)


def test_a_loop_sleeps_while_a_closing_store_waits_for_its_last_answer(
    server: ScriptedS3, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.objects["k"] = b"v"
    go_on, turns = threading.Event(), []
    server.faults["get_object"].append(Fault(until=go_on))
    store = opened(hedge_share=0)
    future = store.submit_read(Read(key="k"))
    assert ends(lambda: server.count("get_object") == 1)
    sleep = CurlEngine.wait
    asked: list[float | None] = []

    def counted(engine: CurlEngine, timeout_s: float | None) -> Any:
        asked.append(timeout_s)
        turns.append(None)
        return sleep(engine, timeout_s)

    monkeypatch.setattr(CurlEngine, "wait", counted)
    closing = threading.Thread(target=store.close)
    closing.start()
    assert ends(lambda: len(turns) > 0)
    time.sleep(0.3)
    assert asked.count(0.0) <= 5
    go_on.set()
    closing.join(30)
    assert future.result(0).data == b"v"


def test_what_is_dropped_in_the_queue_ends_at_once(server: ScriptedS3, opened: Opened) -> None:
    server.objects.update(busy=b"v", large=bytes(20 * MIB))
    go_on = threading.Event()
    server.faults["get_object"].append(Fault(until=go_on))
    store = opened(concurrency=1, hedge_share=0)
    first = store.submit_read(Read(key="busy", size_bytes=1))
    assert ends(lambda: server.count("get_object") == 1)
    second = store.submit_read(Read(key="large", size_bytes=20 * MIB))
    second.cancel()
    assert not wait([second], timeout=30).not_done
    assert not first.done()
    go_on.set()
    assert first.result(30).data == b"v"
    assert server.count("get_object") == 1


@pytest.mark.parametrize(
    "blocking",
    [
        lambda store: store.read("k"),
        lambda store: store.head("k"),
        lambda store: list(store.list()),
        lambda store: store.submit_read(Read(key="k")).result(),
        lambda store: store.submit_read(Read(key="k")).exception(),
        lambda store: store.submit_read(Read(key="large", size_bytes=11 * MIB)).result(),
        lambda store: store.write("new", b"v"),
        lambda store: store.write("new", bytes(11 * MIB)),
        lambda store: store.copy("k", "new"),
        lambda store: store.delete("k"),
        lambda store: store.open_writer("new").close(),
        lambda store: store.open_writer("new").write(bytes(11 * MIB)),
        lambda store: store.close(),
    ],
    ids=[
        "read",
        "head",
        "list",
        "result",
        "exception",
        "large",
        "write",
        "write_in_parts",
        "copy",
        "delete",
        "writer_close",
        "writer_write",
        "close",
    ],
)
def test_what_would_wait_on_the_transports_own_thread_raises(
    server: ScriptedS3, opened: Opened, blocking: Callable[[Store], object]
) -> None:
    server.objects.update(k=b"v", large=bytes(11 * MIB))
    server.pages = [b"<ListBucketResult/>"]
    store = opened()
    told: list[BaseException] = []
    over = threading.Event()

    def from_a_callback(_: object) -> None:
        try:
            blocking(store)
        except BaseException as error:  # noqa: BLE001
            told.append(error)
        finally:
            over.set()

    # A callback that is added to a future that is done runs here.
    answered = threading.Event()
    server.faults["get_object"].append(Fault(until=answered))
    store.submit_read(Read(key="k")).add_done_callback(from_a_callback)
    answered.set()
    assert over.wait(60)
    assert len(told) == 1
    assert isinstance(told[0], StoreError)
    assert "own thread" in str(told[0])
    assert store.read("k").data == b"v"
    assert ends(lambda: not server.uploads)
    assert "new" not in server.objects


def test_a_limit_that_is_used_up_is_not_waited_for_on_the_transports_own_thread(
    server: ScriptedS3, opened: Opened
) -> None:
    server.objects["k"] = b"v"
    limit = OperationLimit(1)
    store = LimitedStore(opened(), limit)
    told: list[BaseException] = []
    over = threading.Event()

    def from_a_callback(_: object) -> None:
        try:
            store.head("k")
        except BaseException as error:  # noqa: BLE001
            told.append(error)
        finally:
            over.set()

    limit.acquire()
    answered = threading.Event()
    server.faults["get_object"].append(Fault(until=answered))
    opened().submit_read(Read(key="k")).add_done_callback(from_a_callback)
    answered.set()
    assert over.wait(60)
    assert isinstance(told[0], StoreError)
    assert "own thread" in str(told[0])
    limit.release()
    assert store.read("k").data == b"v"
    assert limit.in_flight == 0


def test_a_destructor_on_the_transports_thread_does_not_wait(server: ScriptedS3, opened: Opened) -> None:
    server.objects["k"] = b"v"
    store = opened()
    held: list[Any] = [store.open_writer("new")]
    held[0].write(bytes(11 * MIB))
    assert ends(lambda: held[0]._upload.pending == 0)
    over = threading.Event()

    def drop_it(_: object) -> None:
        held.clear()
        gc.collect()
        over.set()

    store.submit_read(Read(key="k")).add_done_callback(drop_it)
    assert over.wait(60)
    assert ends(lambda: not server.uploads)
    assert store.read("k").data == b"v"


def test_threads_that_close_and_use_a_store_at_once_all_get_their_answers(server: ScriptedS3, opened: Opened) -> None:
    server.objects["k"] = b"v"
    store = opened()
    failures: list[BaseException] = []

    def use() -> None:
        try:
            for _ in range(60):
                assert store.read("k").data == b"v"
        except BaseException as error:  # noqa: BLE001
            failures.append(error)

    def close() -> None:
        for _ in range(60):
            store.close()

    threads = [threading.Thread(target=work) for work in (use, use, close, close)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(90)
        assert not thread.is_alive()
    assert not failures
