"""What a program saves beside a checkpoint's own files is there when the checkpoint is, and goes with it."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
import torch.distributed.checkpoint as dcp

from torchbucket import ConfigError
from torchbucket.dcp import BucketStorageReader, BucketStorageWriter, is_complete, prune, verify
from torchbucket.dcp.found_checkpoints import FoundCheckpoint
from torchbucket.store import open_store
from torchbucket.store.memory import MemoryStore

STORE = open_store("memory://beside")
CONTENT = {"settings.json": b"{}", "notes/a.txt": b"of a program's own" * 100}
_numbers = itertools.count()


@pytest.fixture
def run() -> str:
    return f"memory://beside/run-{next(_numbers)}"


def save(uri: str, **options: Any) -> None:
    state = {"weight": torch.arange(50.0)}
    dcp.save(state, storage_writer=BucketStorageWriter(uri, beside=CONTENT, **options), no_dist=True)


def names(uri: str) -> list[str]:
    prefix = uri.removeprefix("memory://beside/") + "/"
    return [info.key.removeprefix(prefix) for info in STORE.list(prefix)]


def test_they_are_written_before_the_marker_and_verified(run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    write = MemoryStore.write

    def noted(self: MemoryStore, key: str, *rest: Any, **named: Any) -> Any:
        written.append(key)
        return write(self, key, *rest, **named)

    monkeypatch.setattr(MemoryStore, "write", noted)
    save(f"{run}/step-1")
    assert written[-1].endswith("/.metadata")
    assert {key.partition("step-1/")[2] for key in written[:-1]} >= set(CONTENT)
    assert set(names(f"{run}/step-1")) == {*CONTENT, ".metadata", ".torchbucket.json", "__0_0.distcp"}
    into = {"weight": torch.zeros(50)}
    dcp.load(into, storage_reader=BucketStorageReader(f"{run}/step-1"), no_dist=True)
    assert torch.equal(into["weight"], torch.arange(50.0))
    assert verify(f"{run}/step-1") == []
    key = f"{run.removeprefix('memory://beside/')}/step-1/settings.json"
    STORE.write(key, b"[]")
    assert verify(f"{run}/step-1") == ["settings.json has other bytes than were written"]
    STORE.delete(key)
    assert not is_complete(f"{run}/step-1")


def test_where_one_cannot_be_written_there_is_no_checkpoint(run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    write = MemoryStore.write

    def fail(self: MemoryStore, key: str, *rest: Any, **named: Any) -> Any:
        if key.endswith("a.txt"):
            raise OSError("no room")
        return write(self, key, *rest, **named)

    monkeypatch.setattr(MemoryStore, "write", fail)
    with pytest.raises(dcp.CheckpointException) as failed:
        save(f"{run}/step-1")
    assert isinstance(failed.value.failures[0][0], OSError)
    assert not is_complete(f"{run}/step-1")
    monkeypatch.undo()
    monkeypatch.setattr(FoundCheckpoint, "age_s", lambda _: 1e6)
    save(f"{run}/step-2")
    # What it had written is known to be ours, though the save never ended.
    assert "settings.json" in names(f"{run}/step-1")
    assert [removed.name for removed in prune(run, 1)] == ["step-1"]
    assert names(f"{run}/step-1") == []


def test_they_are_removed_with_it_and_others_stay(run: str) -> None:
    for step in (1, 2):
        save(f"{run}/step-{step}")
        STORE.write(f"{run.removeprefix('memory://beside/')}/step-{step}/mine.txt", b"")
    prune(run, 1)
    assert names(f"{run}/step-1") == ["mine.txt"]
    assert set(names(f"{run}/step-2")) > set(CONTENT)


def test_each_rank_by_itself_has_them_once(run: str) -> None:
    writer = BucketStorageWriter(f"{run}/step-1", beside=CONTENT)
    dcp.save({"weight": torch.ones(3)}, storage_writer=writer, no_dist=True, use_collectives=False)
    assert set(CONTENT) <= set(names(f"{run}/step-1"))
    assert is_complete(f"{run}/step-1")


@pytest.mark.parametrize("name", [".metadata", "a/.torchbucket.json", "__0_0.distcp", "__1.metadata"])
def test_they_are_not_called_as_the_checkpoint_s_own(name: str) -> None:
    with pytest.raises(ConfigError, match="name of a file of the checkpoint itself"):
        BucketStorageWriter("memory://beside/a", beside={name: b""})


@pytest.mark.parametrize("name", ["../a", "", "/a"])
def test_they_are_below_it(name: str) -> None:
    with pytest.raises(ConfigError, match="path below"):
        BucketStorageWriter("memory://beside/a", beside={name: b""})
