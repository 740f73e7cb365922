"""Run by ``test_store_processes``: uses a store around forks, interrupts and exits, and prints what it saw."""

from __future__ import annotations

import builtins
import functools
import gc
import hashlib
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import wait
from typing import Any

from torchbucket.config import MIB, StoreConfig
from torchbucket.errors import StoreError, TransportError
from torchbucket.store import Read, Store, open_store
from torchbucket.store.wrappers import LimitedStore

SMALL = 40
LARGE_BYTES = 6 * MIB  # Two parts.


@functools.cache
def content(number: int) -> bytes:
    return hashlib.sha256(str(number).encode()).digest() * (100 + number)


@functools.cache
def large() -> bytes:
    return hashlib.shake_128(b"large").digest(LARGE_BYTES)


def make(store: Store) -> None:
    for number in range(SMALL):
        store.write(f"k{number}", content(number))
    store.write("large", large())


def check(store: Store, first: int, count: int = 15) -> None:
    futures = {n % SMALL: store.submit_read(Read(key=f"k{n % SMALL}")) for n in range(first, first + count)}
    whole = store.submit_read(Read(key="large", size_bytes=LARGE_BYTES))
    for number, future in futures.items():
        assert bytes(future.result(60).data) == content(number), number
    assert whole.result(60).data == large()


def forks_while_busy(store: Store) -> None:
    """Children are forked while four threads read; each reads too, and ends by one of three ways."""
    make(store)
    stop, failures = threading.Event(), []

    def read_on(first: int) -> None:
        try:
            while not stop.is_set():
                check(store, first)
        except BaseException as error:  # noqa: BLE001
            failures.append(repr(error))

    threads = [threading.Thread(target=read_on, args=(n * 31,)) for n in range(4)]
    for thread in threads:
        thread.start()
    time.sleep(0.2)
    for number in range(6):
        pid = os.fork()
        if pid == 0:
            try:
                check(store, number * 17)
                if number % 3 == 0:
                    store.close()
                gc.collect()
                if number % 3 == 1:
                    sys.exit(0)  # a full exit, with destructors, is the one that could end the parent's TLS sessions
                os._exit(0)
            except Exception as error:  # noqa: BLE001
                print(f"child {number}: {error!r}", flush=True)
                os._exit(1)
        assert os.waitpid(pid, 0)[1] == 0
    stop.set()
    for thread in threads:
        thread.join()
    assert not failures, failures
    check(store, 3)


def fork_from_a_callback(store: Store) -> None:
    """A fork on the transport's own thread, of which only the child's copy goes on."""
    make(store)
    statuses: list[int] = []

    def fork(_: object) -> None:
        pid = os.fork()
        if pid == 0:
            try:
                check(store, 1)
                os._exit(0)
            finally:
                os._exit(1)
        statuses.append(os.waitpid(pid, 0)[1])

    future = store.submit_read(Read(key="k1"))
    future.add_done_callback(fork)
    deadline = time.monotonic() + 60
    while not statuses and time.monotonic() < deadline:
        time.sleep(0.01)
    assert statuses == [0]
    check(store, 5)


def parents_future_in_a_child(store: Store) -> None:
    """The answer to a request on the way at the fork is the parent's; the child is told so and does not wait."""
    make(store)
    futures = [store.submit_read(Read(key="large")) for _ in range(20)]
    writer = store.open_writer("w")
    writer.write(b"x")
    pid = os.fork()
    if pid == 0:
        told = 0
        for future in futures:
            try:
                assert future.result(30).data == large()
            except TransportError as error:
                assert "only the parent" in str(error)
                told += 1
        try:
            writer.write(b"y")
        except StoreError as error:
            assert "belongs to the parent" in str(error)
        else:
            os._exit(3)
        check(store, 1)
        os._exit(0 if told else 2)
    assert os.waitpid(pid, 0)[1] == 0
    assert all(future.result(60).data == large() for future in futures)
    writer.close()


def _in_worker(store: Store, first: int) -> bool:
    check(store, first)
    return True


def start_methods(store: Store) -> None:
    """A pool of each start method gets the store, pickled where it must be, after the parent has used it."""
    make(store)
    check(store, 0)
    for method in ("fork", "forkserver", "spawn"):
        with multiprocessing.get_context(method).Pool(1) as pool:
            assert pool.starmap(_in_worker, [(store, n) for n in range(2)]) == [True] * 2
    check(store, 0)


def _ends_well(pid: int) -> None:
    assert os.waitpid(pid, 0)[1] == 0


def _in_child(work: Callable[[], None]) -> int:
    """Fork; the child does the work and exits with 0 where that succeeded."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException as error:  # noqa: BLE001
            print(f"child: {error!r}", flush=True)
            os._exit(1)
        os._exit(0)
    return pid


def forks_of_forks(store: Store) -> None:
    """A child, which inherited a loop that stood still, reads and forks in its turn, also from another thread."""
    make(store)

    def grandchild() -> None:
        check(store, 3)

    def child() -> None:
        statuses: list[int] = []

        def fork_here() -> None:
            statuses.append(os.waitpid(_in_child(grandchild), 0)[1])

        thread = threading.Thread(target=fork_here)
        thread.start()
        thread.join(60)
        assert statuses == [0], statuses
        check(store, 5)
        fork_here()
        assert statuses == [0, 0], statuses

    _ends_well(_in_child(child))
    check(store, 7)


def pool_of_brief_workers(store: Store) -> None:
    """A child starts a pool whose workers end after each task: its handler's thread forks the next ones."""
    make(store)

    def child() -> None:
        with multiprocessing.get_context("fork").Pool(1, maxtasksperchild=1) as pool:
            assert pool.starmap_async(_in_worker, [(store, n) for n in range(3)], chunksize=1).get(60) == [True] * 3

    _ends_well(_in_child(child))


def forks_while_stores_open(store: Store) -> None:
    """Several threads fork while others open, use and drop stores."""
    make(store)
    stop, failures = threading.Event(), []

    def use() -> None:
        while not stop.is_set():
            own = open_store(store.uri, store.config)  # type: ignore[attr-defined]
            own.read("k1")

    def fork() -> None:
        for _ in range(8):
            _ends_well(_in_child(lambda: check(store, 2, 5)))

    def guarded(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001
            failures.append(repr(error))

    users = [threading.Thread(target=guarded, args=(use,)) for _ in range(3)]
    forkers = [threading.Thread(target=guarded, args=(fork,)) for _ in range(2)]
    for thread in (*users, *forkers):
        thread.start()
    for thread in forkers:
        thread.join()
    stop.set()
    for thread in users:
        thread.join()
    assert not failures, failures


def any_future_ends_in_a_child(store: Store) -> None:
    """Whatever waits, also ``concurrent.futures.wait``, for whatever future: it ends in a child."""
    make(store)
    gate = threading.Event()
    with tempfile.TemporaryDirectory() as directory:
        files = open_store(f"file://{directory}")
        files.write("k", b"v")
        # Its threads stand still until the children are gone.
        files._submit(gate.wait)  # type: ignore[attr-defined]
        late = [files._submit(gate.wait) for _ in range(40)]  # type: ignore[attr-defined]
        late.append(store.submit_read(Read(key="large", size_bytes=LARGE_BYTES)))
        late.append(LimitedStore(files, 1).submit_read(Read(key="k")))

        def child() -> None:
            done, left = wait(late, timeout=30)
            assert not left
            told = [future.exception() for future in done]
            assert sum(isinstance(error, TransportError) and "forked" in str(error) for error in told) >= 41
            assert files.read("k").data == b"v"
            check(store, 1)

        _ends_well(_in_child(child))
        gate.set()
        wait(late, timeout=60)


class UsesAtTheEnd:
    """Asks a store for something in its destructor, as the interpreter is torn down."""

    def __init__(self, store: Store) -> None:
        self.calls = (store.head, lambda key: store.submit_read(Read(key=key)))
        self.write = functools.partial(os.write, sys.stdout.fileno())

    def __del__(self) -> None:
        for call in self.calls:
            try:
                call("silent")
            except Exception as error:  # noqa: BLE001
                self.write(f"{type(error).__name__}\n".encode())


def exit_while_reading(store: Store) -> None:
    """The server is silent for ever; the exit does not wait for it, and no destructor does."""
    store.submit_read(Read(key="silent"))
    time.sleep(0.2)
    builtins.kept = UsesAtTheEnd(store)  # type: ignore[attr-defined]  # which are there to the last


def exit_as_a_store_is_freed(store: Store) -> None:
    """The last to drop a store is its own thread, which is still at it when the exit begins."""
    begun = threading.Event()

    def free_slowly(_: object) -> None:
        begun.set()
        time.sleep(0.5)
        print("ended", flush=True)

    store.write("k", b"v")
    own = open_store(store.uri, store.config)  # type: ignore[attr-defined]
    globals()["kept"] = weakref.ref(own._transport, free_slowly)
    # Its operation keeps the transport until the callback is over.
    own.submit_read(Read(key="k")).add_done_callback(lambda _: time.sleep(0.1))
    del own
    assert begun.wait(30)


def exit_with_open_writer(store: Store) -> None:
    """Nobody closes the writer; the exit aborts its upload."""
    writer = store.open_writer("unfinished")
    writer.write(bytes(6 * MIB))
    globals()["kept"] = writer


def interrupt_a_write(store: Store) -> None:
    """Ctrl-C while a write waits: it ends, and leaves nothing."""
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        store.write("interrupted", bytes(20 * MIB))
    except KeyboardInterrupt:
        print("interrupted", flush=True)


def interrupt_a_read(store: Store) -> None:
    """Ctrl-C while a read waits."""
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        store.read("silent")
    except KeyboardInterrupt:
        print("interrupted", flush=True)


def main() -> None:
    name, endpoint, certificate, scheme = sys.argv[1:5]
    config = StoreConfig(
        endpoint=endpoint,
        region="us-east-1" if scheme == "s3" else None,
        part_size_bytes=5 * MIB,
        memory_budget_bytes=20 * MIB,
        ca_bundle=certificate or None,
        concurrency=16,
    )
    scenarios: dict[str, Callable[[Any], None]] = {
        function.__name__: function
        for function in (
            forks_while_busy,
            fork_from_a_callback,
            parents_future_in_a_child,
            start_methods,
            forks_of_forks,
            pool_of_brief_workers,
            forks_while_stores_open,
            any_future_ends_in_a_child,
            exit_while_reading,
            exit_as_a_store_is_freed,
            exit_with_open_writer,
            interrupt_a_write,
            interrupt_a_read,
        )
    }
    scenarios[name](open_store(f"{scheme}://data", config))
    print("done", flush=True)


if __name__ == "__main__":
    main()
