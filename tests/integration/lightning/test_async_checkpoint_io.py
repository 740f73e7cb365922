"""Saving in the background: no failure and no checkpoint is lost, and what comes after a save waits for it."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch

from torchbucket import StoreError
from torchbucket.lightning import AsyncBucketCheckpointIO
from torchbucket.store import ObjectInfo, open_store
from torchbucket.store.memory import MemoryStore

STATE = {"weight": torch.arange(1000.0)}
URI = "memory://lightning/run"


class Gate:
    """Holds every save until it is opened, or has it fail; writes down what the store is asked for."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.failing = ""
        self.log: list[str] = []


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    gate, write_from, delete = Gate(), MemoryStore.write_from, MemoryStore.delete

    def held(store: MemoryStore, key: str, pieces: Any, **options: Any) -> ObjectInfo:
        assert gate.open.wait(60)
        if gate.failing and gate.failing in key:
            raise StoreError(f"no room for {key}")
        info = write_from(store, key, pieces, **options)
        gate.log.append(f"saved {key}")
        return info

    def logged(store: MemoryStore, key: str, **options: Any) -> None:
        gate.log.append(f"removed {key}")
        delete(store, key, **options)

    monkeypatch.setattr(MemoryStore, "write_from", held)
    monkeypatch.setattr(MemoryStore, "delete", logged)
    yield gate
    gate.open.set()


@pytest.fixture
def plugin(gate: Gate) -> Iterator[AsyncBucketCheckpointIO]:
    plugin = AsyncBucketCheckpointIO()
    yield plugin
    gate.open.set()
    plugin.wait_for_end()
    store = open_store("memory://lightning")
    for info in list(store.list()):
        store.delete(info.key)


def names() -> list[str]:
    return [info.key for info in open_store("memory://lightning").list()]


def test_the_training_goes_on_and_the_end_waits(gate, plugin):
    state = {"weight": torch.zeros(1000)}
    plugin.save_checkpoint(state, f"{URI}/1.ckpt")
    state["weight"] += 1  # the training goes on
    assert not plugin.is_durable
    assert plugin.is_saving(f"{URI}/1.ckpt")
    assert not plugin.is_saving(f"{URI}/2.ckpt")
    assert names() == []
    with ThreadPoolExecutor(1) as thread:
        end = thread.submit(plugin.teardown)
        assert not end.done()
        gate.open.set()
        end.result(60)
    assert names() == ["run/1.ckpt"]
    assert plugin.is_durable
    assert not plugin.load_checkpoint(f"{URI}/1.ckpt")["weight"].any()
    plugin.save_checkpoint(STATE, f"{URI}/2.ckpt")  # a plugin serves several fits
    plugin.teardown()
    assert names() == ["run/1.ckpt", "run/2.ckpt"]


def test_a_removal_waits_for_the_save_before_it(gate, plugin):
    gate.open.set()
    plugin.save_checkpoint(STATE, f"{URI}/1.ckpt")
    plugin.wait()
    gate.open.clear()
    plugin.save_checkpoint(STATE, f"{URI}/2.ckpt")
    plugin.remove_checkpoint(f"{URI}/1.ckpt")
    plugin.remove_checkpoint(f"{URI}/2.ckpt")
    assert names() == ["run/1.ckpt"]
    gate.open.set()
    plugin.save_checkpoint(STATE, f"{URI}/2.ckpt")  # not before the removal of what had that name
    plugin.teardown()
    assert gate.log == [
        "saved run/1.ckpt",
        "saved run/2.ckpt",
        "removed run/1.ckpt",
        "removed run/2.ckpt",
        "saved run/2.ckpt",
    ]
    assert names() == ["run/2.ckpt"]


def test_a_failure_is_raised_at_the_next_save_and_nothing_is_removed_for_it(gate, plugin):
    gate.open.set()
    plugin.save_checkpoint(STATE, f"{URI}/1.ckpt")
    gate.failing = "2.ckpt"
    plugin.save_checkpoint(STATE, f"{URI}/2.ckpt")
    plugin.remove_checkpoint(f"{URI}/1.ckpt")
    plugin.wait_for_end()
    assert not plugin.is_durable
    with pytest.raises(StoreError, match=r"no room for run/2\.ckpt"):
        plugin.save_checkpoint(STATE, f"{URI}/3.ckpt")
    assert names() == ["run/1.ckpt"]
    plugin.save_checkpoint(STATE, f"{URI}/3.ckpt")  # it was told, once
    plugin.teardown()
    assert names() == ["run/1.ckpt", "run/3.ckpt"]


def test_the_last_one_s_failure_is_raised_at_the_end(gate, plugin):
    gate.failing = "1.ckpt"
    plugin.save_checkpoint(STATE, f"{URI}/1.ckpt")
    gate.open.set()
    with pytest.raises(StoreError, match=r"no room for run/1\.ckpt"):
        plugin.teardown()
    plugin.teardown()


def test_a_removal_that_fails_is_raised_too(gate, plugin, monkeypatch):
    def refused(store: MemoryStore, key: str, **options: Any) -> None:
        raise StoreError(f"may not remove {key}")

    plugin.save_checkpoint(STATE, f"{URI}/1.ckpt")
    with monkeypatch.context() as patch:
        patch.setattr(MemoryStore, "delete", refused)
        plugin.remove_checkpoint(f"{URI}/0.ckpt")
        gate.open.set()
        with pytest.raises(StoreError, match=r"may not remove run/0\.ckpt"):
            plugin.teardown()
    assert names() == ["run/1.ckpt"]


def test_a_load_and_a_copy_see_what_was_saved_before(gate, plugin):
    plugin.save_checkpoint(STATE, f"{URI}/1.ckpt")
    plugin.copy_checkpoint(f"{URI}/1.ckpt", f"{URI}/last.ckpt")
    assert names() == []
    gate.open.set()
    assert torch.equal(plugin.load_checkpoint(f"{URI}/1.ckpt")["weight"], STATE["weight"])
    assert torch.equal(plugin.load_checkpoint(f"{URI}/last.ckpt")["weight"], STATE["weight"])


def test_another_process_gets_a_plugin_with_nothing_under_way(gate, plugin):
    plugin.save_checkpoint(STATE, f"{URI}/1.ckpt")
    plugin.remove_checkpoint(f"{URI}/0.ckpt")
    sent = pickle.loads(pickle.dumps(plugin))
    assert sent.is_durable
    gate.open.set()
    sent.save_checkpoint(STATE, f"{URI}/2.ckpt")
    sent.teardown()
    assert not plugin.is_saving(f"{URI}/2.ckpt")
