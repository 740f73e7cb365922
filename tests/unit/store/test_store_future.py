"""Futures of a store: waited for by several threads, by none, and by the functions that wait for many."""

from __future__ import annotations

import threading
import time
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, TimeoutError, wait
from typing import Any

import pytest

from torchbucket.store.store_future import StoreFuture

PATIENCE_S = 30.0


def wait_until_waited_for(future: StoreFuture[Any], threads: int) -> None:
    """Return once so many threads wait in ``future``."""
    while True:
        with future._condition:
            if len(getattr(future._condition, "_waiters", ())) == threads:
                return
        time.sleep(0.001)


def test_a_result_reaches_every_thread_that_waits_for_it() -> None:
    future: StoreFuture[int] = StoreFuture()
    with ThreadPoolExecutor(8) as pool:
        waiting = [pool.submit(future.result, PATIENCE_S) for _ in range(4)]
        waiting += [pool.submit(future.exception, PATIENCE_S) for _ in range(4)]
        wait_until_waited_for(future, 8)
        future.set_result(7)
        assert [done.result(PATIENCE_S) for done in waiting] == [7] * 4 + [None] * 4


def test_a_failure_reaches_every_thread_that_waits_for_it() -> None:
    future: StoreFuture[int] = StoreFuture()
    with ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(future.exception, PATIENCE_S) for _ in range(2)]
        wait_until_waited_for(future, 2)
        error = OSError("cut")
        future.set_exception(error)
        assert [done.result(PATIENCE_S) for done in waiting] == [error, error]


def test_cancelling_wakes_whoever_waits() -> None:
    future: StoreFuture[int] = StoreFuture()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(future.result, PATIENCE_S)
        wait_until_waited_for(future, 1)
        assert future.cancel()
        with pytest.raises(CancelledError):
            waiting.result(PATIENCE_S)


def test_a_wait_that_took_too_long_leaves_the_future_to_be_waited_for_again() -> None:
    future: StoreFuture[int] = StoreFuture()
    for _ in range(2):
        with pytest.raises(TimeoutError):
            future.result(0.001)
    future.set_result(7)
    assert future.result() == 7


def test_results_are_waited_for_together_with_those_of_other_futures() -> None:
    others: list[Future[int]] = [StoreFuture(), Future(), StoreFuture()]

    def settle() -> None:
        for number, future in enumerate(others):
            future.set_result(number)

    thread = threading.Thread(target=settle)
    thread.start()
    done, left = wait(others, timeout=PATIENCE_S)
    thread.join()
    assert not left
    assert sorted(future.result() for future in done) == [0, 1, 2]


def test_each_of_many_results_is_seen_however_threads_take_turns() -> None:
    futures: list[StoreFuture[int]] = [StoreFuture() for _ in range(2000)]
    thread = threading.Thread(target=lambda: [future.set_result(n) for n, future in enumerate(futures)])
    thread.start()
    assert [future.result(PATIENCE_S) for future in futures] == list(range(2000))
    thread.join()
