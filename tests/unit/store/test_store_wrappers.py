"""Wrappers are stores: they forward everything, and count, limit or slow down as they say."""

from __future__ import annotations

import inspect
import itertools
import os
import pickle
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, wait
from typing import Any
from unittest.mock import Mock

import pytest

from torchbucket.errors import ConfigError, NotFoundError, StoreError
from torchbucket.store import ObjectData, ObjectInfo, Read, Store, StoreConfig, open_store
from torchbucket.store.starting import start_threads
from torchbucket.store.store_future import TransportThread
from torchbucket.store.wrappers import (
    ForwardingStore,
    LimitedStore,
    MeteredStore,
    OperationLimit,
    OperationUsage,
    RateLimit,
    ThrottledStore,
)
from torchbucket.store.wrappers.delays import _Delays, call_at

_numbers = itertools.count()
Wrap = Callable[[Store], Store]
WRAPS: dict[str, Wrap] = {
    "forwarding": ForwardingStore,
    "metered": MeteredStore,
    "limited": lambda inner: LimitedStore(inner, 2),
    "throttled": lambda inner: ThrottledStore(inner, RateLimit(operations_per_s=1e6, bytes_per_s=1e12)),
    "all": lambda inner: MeteredStore(LimitedStore(ThrottledStore(inner, RateLimit()), 1)),
}


def memory(**objects: bytes) -> Store:
    store = open_store(f"memory://wrappers-{next(_numbers)}")
    for key, content in objects.items():
        store.write(key, content)
    return store


class Recorder:
    """Takes every call of the protocol and returns something of its own for it."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[object, ...], dict[str, object]]] = []
        self.given: dict[str, Any] = {}

    uri = "memory://recorder"

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):
            raise AttributeError(name)

        def call(*args: object, **kwargs: object) -> object:
            self.calls.append((name, args, kwargs))
            result: Any = object()
            if name.startswith("submit_"):
                self.given[name] = result
                future: Future[object] = Future()
                future.set_result(result)
                return future
            if name in ("list", "list_uploads"):
                self.given[name] = [result, object()]
                return iter(self.given[name])
            if name in ("delete", "abort_upload", "close"):
                result = None
            if name == "open_writer":
                result = memory().open_writer("k")
            self.given[name] = result
            return result

        return call


ARGUMENTS: dict[str, Any] = {
    "prefix": "p",
    "start_after": "a",
    "key": "k",
    "start": 1,
    "stop": 3,
    "read": Read(key="k", start=1, stop=3, size_bytes=9, version="v"),
    "version": "v",
    "targets": [(3, memoryview(bytearray(2)))],
    "gap_bytes": 7,
    "filled": print,
    "size_bytes": 9,
    "if_absent": True,
    "if_version": "v",
    "data": b"xyz",
    "pieces": [b"xy", b"z"],
    "multipart": False,
    "size_hint": 3,
    "source_key": "s",
    "target_key": "t",
    "sources": [ObjectInfo(key="k", size_bytes=1)],
    "upload": object(),
}
METHODS = [name for name, member in vars(Store).items() if inspect.isfunction(member) and not name.startswith("_")]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("wrap", WRAPS)
def test_every_method_of_the_protocol_is_forwarded(wrap: str, method: str) -> None:
    """With every argument, and its result given back, through whatever future or iterator."""
    recorder = Recorder()
    store = WRAPS[wrap](recorder)  # type: ignore[arg-type]  # it takes whatever call there is
    parameters = inspect.signature(getattr(Store, method)).parameters
    given = {name: ARGUMENTS[name] for name in parameters if name != "self"}
    result = getattr(store, method)(**given)
    if isinstance(result, Future):
        result = result.result(10)
    elif method in ("list", "list_uploads"):
        result = list(result)
    [(name, args, kwargs)] = recorder.calls
    assert name == ("submit_read" if method == "read" else method)
    names = [parameter for parameter in inspect.signature(getattr(Store, name)).parameters if parameter != "self"]
    passed = dict(zip(names, args, strict=False)) | kwargs
    expected = {"read": Read(**given)} if method == "read" else given
    assert expected.items() <= passed.items()
    if method == "open_writer":
        result.abort()
    else:
        assert result == recorder.given[name]


@pytest.mark.parametrize("method", METHODS)
def test_help_of_a_wrapped_method_is_the_protocols(method: str) -> None:
    assert inspect.getdoc(getattr(MeteredStore, method)) == inspect.getdoc(getattr(Store, method))


@pytest.mark.parametrize("wrap", WRAPS)
def test_it_is_a_store_and_has_its_address(wrap: str) -> None:
    inner = memory()
    store = WRAPS[wrap](inner)
    assert isinstance(store, Store)
    assert store.uri == inner.uri
    assert repr(store).count("(") >= 2


@pytest.mark.parametrize("wrap", WRAPS)
def test_it_pickles(wrap: str) -> None:
    store = WRAPS[wrap](memory(k=b"content"))
    copy = pickle.loads(pickle.dumps(store))
    assert type(copy) is type(store)
    assert copy.read("k").data == b"content"


@pytest.mark.parametrize("wrap", WRAPS)
def test_errors_pass(wrap: str) -> None:
    store = WRAPS[wrap](memory())
    with pytest.raises(NotFoundError):
        store.read("missing")
    with pytest.raises(ConfigError):
        store.read("k", start=-1)
    with pytest.raises(ConfigError):
        list(store.list("\ud800"))
    store.write("k", b"ok")
    assert store.read("k").data == b"ok"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("wrap", WRAPS)
def test_a_forked_child_uses_it(wrap: str) -> None:
    """Also where a thread of the parent was inside at the moment of the fork."""
    store = WRAPS[wrap](memory(k=b"content"))
    done = threading.Event()

    def use() -> None:
        while not done.is_set():
            store.read("k")

    threads = [threading.Thread(target=use) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(5):
            child = os.fork()
            if child == 0:
                good = False
                try:
                    good = all(store.submit_read(Read(key="k")).result(10).data == b"content" for _ in range(20))
                finally:
                    os._exit(0 if good else 1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        done.set()
        for thread in threads:
            thread.join()


# -- metered ----------------------------------------------------------------------------------------------------------


def test_calls_bytes_and_errors_are_counted_by_operation() -> None:
    store = MeteredStore(memory(a=b"12345", b=b"67"))
    assert store.read("a").data == b"12345"
    store.submit_read(Read(key="b", start=1)).result()
    store.submit_read_into("a", [(3, memoryview(bytearray(2))), (0, memoryview(bytearray(1)))]).result()
    with pytest.raises(NotFoundError):
        store.read("missing")
    store.write("c", b"xyz")
    with store.open_writer("d") as writer:
        writer.write(b"1234")
        writer.write(b"5")
    assert [info.key for info in store.list()] == ["a", "b", "c", "d"]
    with pytest.raises(NotFoundError):
        store.head("missing")
    store.delete("d")
    usage = store.usage()
    counted = {
        name: (one.calls, one.errors, one.read_bytes, one.written_bytes) for name, one in usage.operations.items()
    }
    assert counted == {
        "submit_read": (3, 1, 6, 0),
        "submit_read_into": (1, 0, 3, 0),
        "write": (1, 0, 0, 3),
        "open_writer": (1, 0, 0, 0),
        "writer.write": (2, 0, 0, 5),
        "writer.close": (1, 0, 0, 0),
        "list": (1, 0, 0, 0),
        "head": (1, 1, 0, 0),
        "delete": (1, 0, 0, 0),
    }
    assert all(one.time_s >= 0 for one in usage.operations.values())
    assert (usage.total.calls, usage.total.errors) == (12, 2)
    store.read("a")
    assert usage.operations["submit_read"].calls == 3


def test_a_block_that_fails_is_an_abort() -> None:
    store = MeteredStore(memory())
    with pytest.raises(ZeroDivisionError), store.open_writer("k") as writer:
        writer.write(b"1")
        raise ZeroDivisionError
    assert "writer.abort" in store.usage().operations
    assert not list(store.list())


def test_what_is_given_up_is_no_error() -> None:
    class Pending(Recorder):
        def submit_read(self, read: Read) -> Future[ObjectData]:
            return Future()

    store = MeteredStore(Pending())  # type: ignore[arg-type]  # only its reads are used
    assert store.submit_read(Read(key="k")).cancel()
    assert store.usage().operations["submit_read"] == OperationUsage(
        calls=1, cancelled=1, time_s=store.usage().total.time_s
    )


# -- limited ----------------------------------------------------------------------------------------------------------


class Held(Recorder):
    """Reads that are done when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.begun: list[tuple[str, Future[ObjectData]]] = []

    def submit_read(self, read: Read) -> Future[ObjectData]:
        future: Future[ObjectData] = Future()
        self.begun.append((read.key, future))
        return future

    def end(self, position: int) -> None:
        key, future = self.begun[position]
        future.set_result(ObjectData(info=ObjectInfo(key=key, size_bytes=1), start=0, data=b"x"))


def test_reads_begin_in_their_turn_over_all_stores_that_share_the_limit() -> None:
    limit = OperationLimit(2)
    first, second = Held(), Held()
    one, two = LimitedStore(first, limit), LimitedStore(second, limit)  # type: ignore[arg-type]  # only reads are used
    futures = [store.submit_read(Read(key=f"k{n}")) for n in range(3) for store in (one, two)]
    assert ([key for key, _ in first.begun], [key for key, _ in second.begun]) == (["k0"], ["k0"])
    second.end(0)
    first.end(0)
    assert ([key for key, _ in first.begun], [key for key, _ in second.begun]) == (["k0", "k1"], ["k0", "k1"])
    assert [future.done() for future in futures] == [True, True, False, False, False, False]
    assert limit.in_flight == 2


def test_a_read_given_up_before_its_turn_is_never_begun() -> None:
    held = Held()
    store = LimitedStore(held, 1)  # type: ignore[arg-type]  # only reads are used
    futures = [store.submit_read(Read(key=f"k{n}")) for n in range(3)]
    assert futures[1].cancel()
    held.end(0)
    assert [key for key, _ in held.begun] == ["k0", "k2"]
    assert futures[1].cancelled()
    assert futures[2].cancel()
    with pytest.raises(CancelledError):
        futures[2].result(1)
    assert store.limit.in_flight == 0


def test_calls_wait_for_their_turn() -> None:
    held = Held()
    store = LimitedStore(held, 1)  # type: ignore[arg-type]  # reads and heads are used
    future = store.submit_read(Read(key="k"))
    thread = threading.Thread(target=lambda: store.head("k"))
    thread.start()
    time.sleep(0.05)
    assert not held.calls
    held.end(0)
    thread.join(10)
    assert [name for name, _, _ in held.calls] == ["head"]
    assert future.done()


def test_no_more_than_allowed_are_ever_inside() -> None:
    limit = OperationLimit(3)
    inside = most = 0
    lock = threading.Lock()

    class Watched(Recorder):
        def head(self, key: str) -> ObjectInfo:
            nonlocal inside, most
            with lock:
                inside += 1
                most = max(most, inside)
            time.sleep(0.001)
            with lock:
                inside -= 1
            return ObjectInfo(key=key, size_bytes=0)

    store = LimitedStore(Watched(), limit)  # type: ignore[arg-type]  # only heads are used
    threads = [threading.Thread(target=lambda: [store.head("k") for _ in range(40)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 3
    assert limit.in_flight == 0


def test_a_long_line_of_reads_that_are_over_at_once() -> None:
    """Each ends inside the beginning of its own; none may nest in another."""
    limit = OperationLimit(1)
    store = LimitedStore(memory(k=b"1"), limit)
    limit.acquire()
    futures = [store.submit_read(Read(key="k")) for _ in range(5000)]
    limit.release()
    assert not wait(futures, timeout=30).not_done
    assert limit.in_flight == 0


@pytest.mark.parametrize("most", [0, -1, 1.5, True, None])
def test_a_limit_of_nothing_is_refused(most: Any) -> None:
    with pytest.raises(ConfigError, match=r"OperationLimit\.most"):
        LimitedStore(memory(), OperationLimit(most))


# -- throttled --------------------------------------------------------------------------------------------------------


def test_operations_are_evenly_spaced() -> None:
    limit = RateLimit(operations_per_s=10, clock=lambda: 5.0)
    assert [limit.book_s() for _ in range(4)] == pytest.approx([0.0, 0.1, 0.2, 0.3])


def test_bytes_are_paid_by_those_after_them() -> None:
    now_s = 0.0
    limit = RateLimit(bytes_per_s=1000, clock=lambda: now_s)
    assert limit.book_s(500) == 0.0
    assert limit.book_s(0) == pytest.approx(0.5)
    limit.correct(1000)
    assert limit.book_s(0) == pytest.approx(1.5)
    limit.correct(-500)
    assert limit.book_s(0) == pytest.approx(1.0)
    now_s = 100.0
    assert limit.book_s(100) == 0.0  # A silence saves nothing up,
    assert limit.book_s(100) == pytest.approx(0.1)  # so that no burst follows it.


def test_a_throttled_read_returns_at_once_and_comes_later() -> None:
    store = ThrottledStore(memory(k=b"1" * 1000), RateLimit(operations_per_s=1))
    began_s = time.monotonic()
    futures = [store.submit_read(Read(key="k", size_bytes=1000)) for _ in range(2)]
    assert not futures[-1].done()
    assert not wait(futures, timeout=30).not_done
    assert time.monotonic() - began_s >= 0.99


def test_bytes_of_reads_and_writes_count_together() -> None:
    store = ThrottledStore(memory(k=b"1" * 1000), RateLimit(bytes_per_s=20_000))
    began_s = time.monotonic()
    store.read("k")  # Of unknown size: it is counted when it has come.
    store.write("w", b"2" * 1000)
    with store.open_writer("v") as writer:
        for _ in range(10):
            writer.write(b"3" * 100)
    store.head("k")
    assert time.monotonic() - began_s >= 0.14


def test_the_thread_of_throttled_reads_waits_for_none() -> None:
    """It begins those that come later, for all stores of the process."""
    store = ThrottledStore(memory(k=b"v"), RateLimit(operations_per_s=0.01))
    store.submit_read(Read(key="k"))
    later = store.submit_read(Read(key="k"))
    told: list[object] = []
    over = threading.Event()

    def from_the_thread() -> None:
        try:
            told.append(later.result(5))
        except Exception as error:  # noqa: BLE001
            told.append(error)
        over.set()

    call_at(time.monotonic(), from_the_thread)
    assert over.wait(60)
    assert later.cancel()
    assert isinstance(told[0], StoreError)
    assert "own thread" in str(told[0])


def test_a_delayed_call_is_made_though_a_thread_could_not_be_started_for_one_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    delays, made = _Delays(), threading.Event()
    with monkeypatch.context() as patch:
        patch.setattr(TransportThread, "start", Mock(side_effect=RuntimeError("can't start new thread")))
        with pytest.raises(RuntimeError, match="new thread"):
            delays.add(time.monotonic(), lambda: None)
    delays.add(time.monotonic(), made.set)
    assert made.wait(60)


def test_an_exit_waits_for_no_delayed_call() -> None:
    delays, made = _Delays(), threading.Event()
    threads = set(threading.enumerate())
    delays.add(time.monotonic() + 3600, made.set)
    (thread,) = set(threading.enumerate()) - threads
    delays.end()
    thread.join(60)
    assert not thread.is_alive()
    assert not made.is_set()


def test_a_stores_thread_starts_before_its_first_request() -> None:
    store = open_store("s3://bucket", StoreConfig(region="us-east-1"))
    threads = set(threading.enumerate())
    start_threads(MeteredStore(LimitedStore(store, 1)))
    (thread,) = set(threading.enumerate()) - threads
    assert thread.name == "torchbucket-transport"
    start_threads(store)
    assert set(threading.enumerate()) - threads == {thread}
    store.close()
    start_threads(memory())


def test_a_throttled_read_given_up_is_never_begun() -> None:
    held = Held()
    store = ThrottledStore(held, RateLimit(operations_per_s=1))  # type: ignore[arg-type]  # only reads are used
    futures = [store.submit_read(Read(key=f"k{n}")) for n in range(3)]
    assert futures[1].cancel()
    until_s = time.monotonic() + 30
    while len(held.begun) < 2 and time.monotonic() < until_s:
        time.sleep(0.01)
    assert [key for key, _ in held.begun] == ["k0", "k2"]


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), True, "10"])
@pytest.mark.parametrize("name", ["operations_per_s", "bytes_per_s"])
def test_a_rate_of_nothing_is_refused(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=rf"RateLimit\.{name}"):
        RateLimit(**{name: value})


def test_a_limit_shared_by_two_stores_is_shared_after_pickling() -> None:
    limit = OperationLimit(2)
    one, two = pickle.loads(pickle.dumps((LimitedStore(memory(), limit), LimitedStore(memory(), limit))))
    assert one.limit is two.limit
    assert one.limit is not limit
    assert one.limit.most == 2
