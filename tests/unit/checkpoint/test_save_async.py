"""Saving in the background: what is saved is what was there at the call, one at a time, and no failure is lost."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import pytest
import torch
from forked_programs import run

import torchbucket
from torchbucket import Checkpoint, SaveFuture, StoreError
from torchbucket.checkpoint.background import background
from torchbucket.store import ObjectInfo
from torchbucket.store.memory import MemoryStore

PROGRAM = Path(__file__).with_name("save_async_program.py")


class Gate:
    """Holds every write of a whole object until it is opened, or has it fail."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.begun = threading.Semaphore(0)
        self.fails = False
        self.keys: list[str] = []


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    gate, write_from = Gate(), MemoryStore.write_from

    def held(store: MemoryStore, key: str, pieces: Any, **options: Any) -> ObjectInfo:
        gate.begun.release()
        assert gate.open.wait(60)
        if gate.fails:
            raise StoreError(f"no room for {key}")
        gate.keys.append(key)
        return write_from(store, key, pieces, **options)

    monkeypatch.setattr(MemoryStore, "write_from", held)
    yield gate
    gate.open.set()
    background.take(last := SaveFuture("the last one"))
    background.drop(last)


@pytest.mark.parametrize("plain", [False, True])
def test_what_is_saved_is_what_was_there_at_the_call(gate: Gate, plain: bool) -> None:
    state: dict[str, Any] = {"weight": torch.zeros(1000), "epoch": 1}
    if plain:
        state["meta"] = torch.empty(3, device="meta")
    future = torchbucket.save_async(state, "memory://async/k.pt")
    state["weight"] += 1
    assert not future.done()
    assert (future.uri, future.durable_s) == ("memory://async/k.pt", None)
    gate.open.set()
    info = future.result(60)
    assert info.key == "k.pt"
    assert not torchbucket.load("memory://async/k.pt")["weight"].any()
    assert future.durable_s is not None
    assert 0 < future.staged_s <= future.durable_s
    assert not future.cancel()


def test_a_second_save_waits_for_the_first_one_s_memory(gate: Gate) -> None:
    first = torchbucket.save_async({"n": torch.full((1000,), 1.0)}, "memory://async/1.pt")
    with ThreadPoolExecutor(1) as thread:
        second = thread.submit(torchbucket.save_async, {"n": torch.full((1000,), 2.0)}, "memory://async/2.pt")
        assert gate.begun.acquire(timeout=60)
        assert not gate.begun.acquire(timeout=0.05)
        assert not second.done()
        gate.open.set()
        second.result(60).result(60)
    assert first.done()
    assert gate.keys == ["1.pt", "2.pt"]
    for number in (1, 2):
        assert torchbucket.load(f"memory://async/{number}.pt")["n"][0] == number


def test_the_memory_is_used_again_where_the_size_fits(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    gate.open.set()
    addresses = []
    write_from = MemoryStore.write_from

    def noted(store: MemoryStore, key: str, pieces: Any, **options: Any) -> ObjectInfo:
        addresses.append(torch.frombuffer(max(pieces, key=len), dtype=torch.uint8).data_ptr())
        return write_from(store, key, pieces, **options)

    monkeypatch.setattr(MemoryStore, "write_from", noted)
    for value in (1, 2, 3):
        torchbucket.save_async({"n": torch.full((10_000 - value,), value)}, "memory://async/k.pt").result(60)
        assert torchbucket.load("memory://async/k.pt")["n"].sum() == value * (10_000 - value)
    assert len(set(addresses)) == 1
    torchbucket.save_async({"n": torch.ones(100_000)}, "memory://async/k.pt").result(60)
    torchbucket.save_async({"n": torch.ones(10)}, "memory://async/k.pt").result(60)
    assert torchbucket.load("memory://async/k.pt")["n"].shape == (10,)


def test_a_save_to_the_same_address_comes_after_the_one_under_way(gate: Gate) -> None:
    """Else what was saved first would be what stays."""
    checkpoint = Checkpoint("memory://async")
    early = checkpoint.save_async({"epoch": 1}, "last.pt")
    with ThreadPoolExecutor(1) as thread:
        late = thread.submit(checkpoint.save, {"epoch": 2}, "last.pt")
        assert gate.begun.acquire(timeout=60)
        assert not gate.begun.acquire(timeout=0.05)
        gate.open.set()
        late.result(60)
    assert early.done()
    assert checkpoint.load("last.pt") == {"epoch": 2}


@pytest.mark.parametrize("save", [torchbucket.save, torchbucket.save_async])
def test_a_failure_that_nobody_asked_for_is_raised_by_the_next_save(
    gate: Gate, save: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    gate.fails = True
    gate.open.set()
    with caplog.at_level(logging.ERROR, logger="torchbucket.checkpoint"):
        failed = torchbucket.save_async({"epoch": 2}, "memory://async/lost.pt")
        wait([failed], timeout=60)
        with pytest.raises(StoreError, match=r"no room for lost\.pt") as caught:
            save({"epoch": 3}, "memory://async/next.pt")
    assert "nobody had asked its future" in "".join(caught.value.__notes__)
    assert "memory://async/lost.pt failed: no room" in caplog.text
    gate.fails = False
    torchbucket.save({"epoch": 3}, "memory://async/next.pt")
    assert torchbucket.save_async({"epoch": 4}, "memory://async/next.pt").result(60).key == "next.pt"


def test_an_interrupted_wait_leaves_nothing_behind(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    gate.open.set()

    def interrupted() -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(background, "raise_failure", interrupted)
        with pytest.raises(KeyboardInterrupt):
            torchbucket.save_async({"epoch": 1}, "memory://async/k.pt")
    assert torchbucket.save_async({"epoch": 2}, "memory://async/k.pt").result(60).key == "k.pt"


def test_a_failure_that_was_asked_for_is_raised_once(gate: Gate) -> None:
    gate.fails = True
    gate.open.set()
    with pytest.raises(StoreError, match="no room"):
        torchbucket.save_async({"epoch": 2}, "memory://async/k.pt").result(60)
    failed = torchbucket.save_async({"epoch": 2}, "memory://async/k.pt")
    assert isinstance(failed.exception(60), StoreError)
    with pytest.raises(TimeoutError):
        SaveFuture("never").result(0.01)
    gate.fails = False
    torchbucket.save_async({"epoch": 3}, "memory://async/k.pt").result(60)


def test_a_callback_may_save_again(gate: Gate) -> None:
    gate.open.set()
    again: list[SaveFuture] = []
    saved = threading.Event()

    def save_again(done: Any) -> None:
        torchbucket.save({"epoch": 2}, "memory://async/sync.pt")
        again.append(torchbucket.save_async({"epoch": 2}, "memory://async/second.pt"))
        saved.set()

    torchbucket.save_async({"epoch": 1}, "memory://async/first.pt").add_done_callback(save_again)
    assert saved.wait(60)
    assert again[0].result(60).key == "second.pt"


@pytest.mark.parametrize("how", ["exception", "failure", "fork"])
def test_the_end_of_a_program_waits_for_the_save(how: str, tmp_path: Path) -> None:
    ended = run(PROGRAM, tmp_path, how)
    assert ended.returncode == (3 if how == "exception" else 0), ended.stderr
    assert how == "failure" or not ended.stderr
    if how == "failure":
        assert not (tmp_path / "k.pt").exists()
        assert "the device is full" in ended.stderr
        assert "atexit callback" in ended.stderr  # raised there too, where no logging shows it
    else:
        assert torch.load(tmp_path / "k.pt", weights_only=True)["epoch"] == 7
    if how == "fork":
        assert ended.stdout.split() == ["TransportError", "1"]
        assert torch.load(tmp_path / "child.pt", weights_only=True) == {"epoch": 8}
        assert torch.load(tmp_path / "k-child.pt", weights_only=True) == {"epoch": 9}


def test_nothing_is_imported_in_the_background(tmp_path: Path) -> None:
    """A child that is forked meanwhile would wait for ever for the end of the import."""
    ended = run(Path(__file__).with_name("background_imports_program.py"), tmp_path)
    assert (ended.returncode, ended.stdout) == (0, "\n"), ended.stderr
