"""The storage of torch-checkpointing: its manager saves to and loads from a bucket, and the commit is one object."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_checkpointing.checkpoint_manager import CheckpointManager
from torch_checkpointing.config import SyncCheckpointSaverConfig
from torch_checkpointing.storage.base_storage import Storage

from torchbucket import ConfigError, NotFoundError
from torchbucket.store import open_store
from torchbucket.store.memory import MemoryStore
from torchbucket.torch_checkpointing import BucketStorage, BucketStorageConfig

STORE = open_store("memory://meta")
_numbers = itertools.count()


@pytest.fixture
def run() -> str:
    return f"memory://meta/run-{next(_numbers)}"


@pytest.fixture
def storage() -> BucketStorage:
    return BucketStorageConfig().create_storage()


def manager() -> CheckpointManager:
    return CheckpointManager.Config(save=SyncCheckpointSaverConfig(), storage_config=BucketStorageConfig()).build()


def state(value: float) -> dict[str, Any]:
    return {"model": {"weight": torch.full((50, 3), value), "bias": torch.arange(5.0)}, "step": {"number": value}}


def names(run: str) -> list[str]:
    prefix = run.removeprefix("memory://meta/") + "/"
    return [info.key.removeprefix(prefix) for info in STORE.list(prefix)]


def test_what_its_manager_saves_it_loads(run: str, storage: BucketStorage) -> None:
    with_it = manager()
    for step in (1, 2):
        with_it.save(f"{run}/step-{step}", state(float(step)))
    into = {"model": {"weight": torch.zeros(50, 3), "bias": torch.zeros(5)}, "step": {"number": 0.0}}
    loaded = with_it.load(f"{run}/step-2", into=into)
    assert torch.equal(loaded["model"]["weight"], torch.full((50, 3), 2.0))
    assert loaded["step"]["number"] == 2.0
    assert storage.ls(Path(run)) == ["step-1", "step-2"]
    assert storage.glob(f"{run}/step-*") == [f"{run}/step-1", f"{run}/step-2"]
    assert not any("tmp_" in name for name in names(run))


def test_the_commit_is_one_request_and_nothing_is_copied(run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[str] = []

    def logged(name: str) -> None:
        act = getattr(MemoryStore, name)

        def noted(store: MemoryStore, key: str, *args: Any, **options: Any) -> Any:
            log.append(f"{name} {key.rpartition('/')[2]}")
            return act(store, key, *args, **options)

        monkeypatch.setattr(MemoryStore, name, noted)

    for name in ("write", "open_writer", "copy", "delete"):
        logged(name)
    manager().save(f"{run}/step-1", state(1.0))
    assert log[0] == "write .torchbucket-staged"
    assert log[-1] == "write .torchbucket-committed"
    assert not [line for line in log if line.startswith(("copy", "delete"))]


def test_what_was_not_committed_is_not_there(run: str, monkeypatch: pytest.MonkeyPatch, storage: BucketStorage) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise OSError("killed")

    with monkeypatch.context() as patched:
        patched.setattr(BucketStorage, "rename", fail)
        with pytest.raises(OSError, match="killed"):
            manager().save(f"{run}/step-1", state(1.0))
    assert storage.ls(Path(run)) == ["tmp_step-1"]
    assert storage.isdir(Path(f"{run}/tmp_step-1"))
    assert not storage.exists(Path(f"{run}/step-1"))
    with pytest.raises(FileNotFoundError):
        manager().load(f"{run}/step-1", into=state(0.0))
    manager().save(f"{run}/step-1", state(2.0))
    assert storage.ls(Path(run)) == ["step-1"]
    assert manager().load(f"{run}/step-1", into=state(0.0))["step"]["number"] == 2.0


def test_a_checkpoint_is_never_written_over(run: str, storage: BucketStorage) -> None:
    manager().save(f"{run}/step-1", state(1.0))
    before = names(run)
    with pytest.raises(FileExistsError, match="step-1"):
        manager().save(f"{run}/step-1", state(2.0))
    assert names(run) == before
    assert manager().load(f"{run}/step-1", into=state(0.0))["step"]["number"] == 1.0
    with pytest.raises(FileExistsError):
        storage.mkdir(Path(f"{run}/tmp_step-1"))
    storage.rmdir(Path(f"{run}/step-1"))
    assert names(run) == []
    with pytest.raises(NotFoundError):
        storage.rmdir(Path(f"{run}/step-1"))


def write(storage: Storage, *paths: str) -> None:
    for path in paths:
        storage.write(Path(path), path.encode())


def test_renaming_keeps_to_the_interface_s_table(run: str, storage: BucketStorage) -> None:
    """Nothing lands inside of what is there, and nothing that is there is merged with or lost."""
    write(storage, f"{run}/one/a", f"{run}/one/b/c", f"{run}/two/d", f"{run}/file")
    storage.rename(Path(f"{run}/one"), Path(f"{run}/new"), is_directory=True)
    assert names(run) == ["file", "new/a", "new/b/c", "two/d"]
    for occupied in ("two", "file"):
        with pytest.raises(FileExistsError):
            storage.rename(Path(f"{run}/new"), Path(f"{run}/{occupied}"), is_directory=True)
    with pytest.raises(FileExistsError):
        storage.rename(Path(f"{run}/file"), Path(f"{run}/two"))
    storage.rename(Path(f"{run}/file"), Path(f"{run}/two/d"))
    assert names(run) == ["new/a", "new/b/c", "two/d"]
    assert storage.read(Path(f"{run}/two/d")) == f"{run}/file".encode()
    for source in ("tmp_nothing", "nothing"):
        with pytest.raises(NotFoundError):
            storage.rename(Path(f"{run}/{source}"), Path(f"{run}/nothing2"), is_directory=True)
    with pytest.raises(NotFoundError):
        storage.rename(Path(f"{run}/tmp_nothing"), Path(f"{run}/nothing"), is_directory=True)


def test_files_are_files(run: str, storage: BucketStorage) -> None:
    path = Path(f"{run}/notes/a.txt")
    with storage.stream_write(path) as file:
        file.write(b"some ")
        file.write(memoryview(b"text"))
    with pytest.raises(ValueError, match="no"), storage.stream_write(Path(f"{run}/notes/b.txt")) as file:
        file.write(b"half")
        raise ValueError("no")
    assert storage.ls(Path(f"{run}/notes")) == ["a.txt"]
    assert (storage.getsize(path), storage.exists(path), storage.isdir(path)) == (9, True, False)
    assert storage.isdir(path.parent)
    with storage.stream_read(path) as stream:
        memory = bytearray(4)
        stream.seek(5)
        assert stream.readinto(memory) == 4
    assert memory == b"text"
    assert storage.remap_path(path) == f"{run}/notes/a.txt"
    assert storage.remap_path(Path(f"{run}/tmp_step-1/x")) == f"{run}/step-1/x"
    storage.delete(path)
    for ask in (storage.delete, storage.getsize, storage.read):
        with pytest.raises(FileNotFoundError):
            ask(path)
    with pytest.raises(FileNotFoundError):
        storage.ls(path.parent)


def test_the_prefix_is_that_of_the_writer(run: str) -> None:
    storage = BucketStorageConfig(temp_dir_prefix="new.").create_storage()
    write(storage, f"{run}/new.step-1/x", f"{run}/tmp_other/y")
    assert storage.ls(Path(run)) == ["new.step-1", "tmp_other"]
    with pytest.raises(ConfigError, match="temp_dir_prefix"):
        BucketStorageConfig(temp_dir_prefix="").create_storage()


def test_a_run_below_a_directory_that_seems_temporary_is_refused(storage: BucketStorage, run: str) -> None:
    """Its checkpoints would be copied to their names, and lie beside those of the run without that prefix."""
    with pytest.raises(ConfigError, match="begins with 'tmp_' as well"):
        storage.mkdir(Path(f"{run}/tmp_trials/tmp_step-1"))
    assert names(run) == []
    storage.mkdir(Path(f"{run}/trials/tmp_step-1"))
    assert names(run) == ["trials/step-1/.torchbucket-staged"]
