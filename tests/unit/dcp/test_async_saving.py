"""Saves in the background, one at a time, whose failure is heard of."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import thread as python_pools
from typing import Any

import pytest
import torch
import torch.distributed.checkpoint as dcp
from saved_states import emptied, same, training_state
from torch.distributed.checkpoint import CheckpointException

from torchbucket import CheckpointError, ConfigError
from torchbucket.dcp import AsyncSaver, BucketStorageReader, BucketStorageWriter, is_complete


class Failing(BucketStorageWriter):
    """A bucket without room."""

    def write_data(self, *_: Any) -> Any:
        raise OSError("no room")


class Held(BucketStorageWriter):
    """A slow bucket."""

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        self.may_write = threading.Event()

    def write_data(self, *arguments: Any) -> Any:
        assert self.may_write.wait(60)
        return super().write_data(*arguments)


def loaded(uri: str, like: Any) -> Any:
    into = emptied(like)
    dcp.load(into, storage_reader=BucketStorageReader(uri), no_dist=True)
    return into


@pytest.mark.parametrize("overlap", [False, True])
def test_what_is_saved_is_the_state_at_the_call(overlap: bool) -> None:
    with AsyncSaver(overlap=overlap) as saver:
        for step in range(3):
            state = training_state(step)
            state["weight"] = torch.full((1000,), float(step))
            saved = saver.save(state, BucketStorageWriter(f"memory://async/run/step-{overlap}-{step}"))
            saver.wait_until_staged()
            assert saved.staging_completion.done()
            state["weight"].zero_()
    for step in range(3):
        wanted = training_state(step) | {"weight": torch.full((1000,), float(step))}
        assert same(loaded(f"memory://async/run/step-{overlap}-{step}", wanted), wanted)


def test_a_save_waits_for_the_one_before() -> None:
    held = Held("memory://async/held/step-1")
    with AsyncSaver() as saver:
        first = saver.save({"weight": torch.ones(1000)}, held)
        assert not first.upload_completion.done()
        threading.Timer(0.05, held.may_write.set).start()
        saver.save({"weight": torch.zeros(1000)}, BucketStorageWriter("memory://async/held/step-2"))
        assert first.upload_completion.done()
    wanted = {"weight": torch.ones(1000)}
    assert same(loaded("memory://async/held/step-1", wanted), wanted)


@pytest.mark.parametrize("how", ["save", "wait", "close"])
def test_a_failure_is_raised_once_and_logged(how: str, caplog: pytest.LogCaptureFixture) -> None:
    state = {"weight": torch.ones(10)}
    saver = AsyncSaver()
    with caplog.at_level(logging.ERROR):
        failed = saver.save(state, Failing("memory://async/failing/step-1"))
        with pytest.raises(CheckpointException, match="no room"):
            {
                "save": lambda: saver.save(state, BucketStorageWriter("memory://async/failing/step-2")),
                "wait": saver.wait,
                "close": saver.close,
            }[how]()
    assert "memory://async/failing/step-1" in caplog.text
    assert failed.upload_completion.exception() is not None
    assert not is_complete("memory://async/failing/step-2")
    if how != "close":
        saver.save(state, BucketStorageWriter("memory://async/failing/step-3")).upload_completion.result(30)
    saver.close()
    saver.close()
    with pytest.raises(ConfigError, match="closed"):
        saver.save(state, BucketStorageWriter("memory://async/failing/step-4"))


def test_an_error_of_the_training_comes_first() -> None:
    with pytest.raises(ValueError, match="not a number") as raised, AsyncSaver() as saver:
        saver.save({"weight": torch.ones(10)}, Failing("memory://async/both/step-1"))
        raise ValueError("not a number")
    assert "no room" in raised.value.__notes__[0]


def test_a_state_that_cannot_be_copied_leaves_the_saver_as_it_was() -> None:
    class Uncopied:
        def __deepcopy__(self, _: Any) -> Any:
            raise TypeError("no copy")

    with AsyncSaver() as saver:
        with pytest.raises(TypeError, match="no copy"):
            saver.save({"odd": Uncopied()}, BucketStorageWriter("memory://async/odd/step-1"))
        saver.save({"weight": torch.ones(10)}, BucketStorageWriter("memory://async/odd/step-2"))
    assert is_complete("memory://async/odd/step-2")


def test_a_copy_beside_the_training_that_fails_is_told_by_both_futures() -> None:
    freed = torch.ones(10)
    freed.untyped_storage().resize_(0)
    with AsyncSaver(overlap=True) as saver:
        saved = saver.save({"weight": freed}, BucketStorageWriter("memory://async/beside/step-1"))
        with pytest.raises(CheckpointError, match="its memory was given back"):
            saver.wait_until_staged()
        with pytest.raises(CheckpointException, match="its memory was given back"):
            saver.wait()
        assert saved.upload_completion.done()
        saver.save({"weight": torch.ones(10)}, BucketStorageWriter("memory://async/beside/step-2"))
    assert is_complete("memory://async/beside/step-2")


def test_a_program_may_end_while_a_save_is_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    state, writer = training_state(3), Held("memory://async/run/last")
    saver = AsyncSaver()
    saved = saver.save(state, writer)
    # As at the exit: the interpreter waits for the thread that saves, and no pool of Python's takes work any more.
    monkeypatch.setattr(python_pools, "_shutdown", True)
    writer.may_write.set()
    saved.upload_completion.result(60)
    monkeypatch.undo()
    assert same(loaded("memory://async/run/last", state), state)
    saver.close()


def test_a_process_needs_a_group() -> None:
    with pytest.raises(ConfigError, match="init_process_group"):
        AsyncSaver(process=True)
