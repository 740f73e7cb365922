"""A value is made once a process, and never carried over a fork or in a pickle."""

from __future__ import annotations

import os
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from bucketbench.clients.process_local import ProcessLocal


class Connection:
    """Something that must not be shared."""

    def __init__(self) -> None:
        self.owner = os.getpid()


def test_threads_share_one_value() -> None:
    barrier, made = threading.Barrier(8), list[int]()
    local = ProcessLocal(lambda: made.append(1) or Connection())  # type: ignore[func-returns-value]  # for its effect

    def get(_: int) -> Connection:
        barrier.wait()
        return local.get()

    with ThreadPoolExecutor(8) as pool:
        values = list(pool.map(get, range(8)))
    assert len(made) == 1
    assert all(value is values[0] for value in values)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_forked_child_makes_its_own() -> None:
    local = ProcessLocal(Connection)
    assert local.get().owner == os.getpid()
    child = os.fork()
    if child == 0:
        os._exit(0 if local.get().owner == os.getpid() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert local.get().owner == os.getpid()


def test_a_pickle_has_the_recipe_and_not_the_value() -> None:
    local = ProcessLocal(Connection)
    first = local.get()
    assert pickle.loads(pickle.dumps(local)).get() is not first


def test_a_failure_is_raised_again_and_not_remembered_as_a_value() -> None:
    attempts = list[int]()

    def make() -> int:
        attempts.append(1)
        if len(attempts) == 1:
            raise OSError("no network")
        return 7

    local = ProcessLocal(make)
    with pytest.raises(OSError, match="no network"):
        local.get()
    assert local.get() == 7
