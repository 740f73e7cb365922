"""Pools take work for as long as somebody has some, also while the interpreter exits."""

from __future__ import annotations

import threading
from concurrent.futures import thread as python_pools

import pytest

from torchbucket.store.thread_pool import ThreadPool


def test_once_the_exit_has_begun_the_caller_does_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    with ThreadPool(2) as pool:
        assert pool.submit(threading.get_ident).result(60) != threading.get_ident()
        monkeypatch.setattr(python_pools, "_shutdown", True)
        assert pool.submit(threading.get_ident).result(60) == threading.get_ident()
        assert list(pool.map(divmod, [7, 8], [2, 3])) == [(3, 1), (2, 2)]
        failed = pool.submit(int, "x")
        assert isinstance(failed.exception(60), ValueError)
        monkeypatch.undo()


def test_a_pool_that_is_shut_down_takes_none(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = ThreadPool(1)
    pool.shutdown()
    with pytest.raises(RuntimeError, match="after shutdown"):
        pool.submit(print)
    monkeypatch.setattr(python_pools, "_shutdown", True)
    with pytest.raises(RuntimeError, match="after shutdown"):
        pool.submit(print)
