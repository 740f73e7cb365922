"""Which checkpoints a run has, and what is removed of them: nothing but what we wrote and nobody needs."""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed.checkpoint as dcp

from torchbucket import CheckpointError, ConfigError, NotFoundError, PermissionDeniedError
from torchbucket.cli import main
from torchbucket.dcp import (
    BinaryPrefixes,
    BucketStorageWriter,
    checkpoints,
    is_complete,
    latest,
    prune,
    verify,
)
from torchbucket.dcp.found_checkpoints import FoundCheckpoint
from torchbucket.inspection import inspect_checkpoint
from torchbucket.store import open_store
from torchbucket.store.memory import MemoryStore

STORE = open_store("memory://runs")
_numbers = itertools.count()


@pytest.fixture
def run() -> str:
    return f"memory://runs/run-{next(_numbers)}"


def save(uri: str, **options: Any) -> None:
    state = {"weight": torch.arange(50.0), "epoch": 3}
    dcp.save(state, storage_writer=BucketStorageWriter(uri, **options), no_dist=True)


def key(uri: str) -> str:
    return uri.removeprefix("memory://runs/")


def names(uri: str) -> list[str]:
    return [info.key.removeprefix(key(uri) + "/") for info in STORE.list(key(uri) + "/")]


def old(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have everything be written long ago."""
    monkeypatch.setattr(FoundCheckpoint, "age_s", lambda _: 1e6)


def test_the_newest_is_the_one_with_the_highest_number(run: str) -> None:
    assert latest(run) is None
    assert checkpoints(run) == []
    for step in (9, 100, 20):
        save(f"{run}/step-{step}")
    assert [found.step for found in checkpoints(run)] == [9, 20, 100]
    assert latest(run) == latest(run + "/") == f"{run}/step-100"
    found = checkpoints(run)[0]
    assert (found.name, found.uri, found.is_complete, found.why_not, found.is_ours) == (
        "step-9",
        f"{run}/step-9",
        True,
        "",
        True,
    )
    assert found.files == 3
    assert found.size_bytes == sum(info.size_bytes for info in STORE.list(key(f"{run}/step-9/")))


def test_a_version_behind_the_number_is_not_the_number(run: str) -> None:
    for name in ("epoch=3-step=90.ckpt", "epoch=2-step=80-v1.ckpt", "epoch=3-step=90-v12.ckpt", "model-v7"):
        save(f"{run}/{name}")
    assert [found.step for found in checkpoints(run)] == [7, 80, 90, 90]
    assert latest(run) == f"{run}/epoch=3-step=90-v12.ckpt"  # which was written later


def test_without_numbers_it_is_the_last_one_written(tmp_path: Path) -> None:
    for name in ("b", "a"):
        save(f"{tmp_path}/{name}")
    for path in (tmp_path / "b").iterdir():
        os.utime(path, (1, 1))
    assert latest(tmp_path) == f"file://{tmp_path}/a"


def test_what_is_no_checkpoint_is_passed_over(run: str) -> None:
    save(f"{run}/step-1")
    STORE.write(key(f"{run}/step-2/weights.safetensors"), b"")
    STORE.write(key(f"{run}/log.txt"), b"")
    assert [found.name for found in checkpoints(run)] == ["step-1"]


@pytest.mark.parametrize("missing", [".metadata", "0000/__0_0.distcp", "__0_0.distcp"])
def test_an_incomplete_one_is_never_the_latest(run: str, missing: str) -> None:
    save(f"{run}/step-1")
    save(f"{run}/step-2")
    if "/" in missing:
        save(f"{run}/step-2", prefixes=BinaryPrefixes())
    STORE.delete(key(f"{run}/step-2/{missing}"))
    assert latest(run) == f"{run}/step-1"
    assert is_complete(f"{run}/step-1")
    assert not is_complete(f"{run}/step-2")
    assert f"{missing} is missing" in checkpoints(run)[1].why_not


def test_one_that_was_altered_is_told(run: str) -> None:
    save(f"{run}/step-1")
    assert verify(f"{run}/step-1") == []
    shard = key(f"{run}/step-1/__0_0.distcp")
    content = bytearray(STORE.read(shard).data)
    content[-300] ^= 1
    STORE.write(shard, content)
    assert verify(f"{run}/step-1") == ["__0_0.distcp has other bytes than were written"]
    assert is_complete(f"{run}/step-1")
    STORE.write(shard, content[:-1])
    assert "__0_0.distcp has" in verify(f"{run}/step-1")[0]
    assert not is_complete(f"{run}/step-1")
    STORE.write(key(f"{run}/step-1/.metadata"), b"not one")
    assert "no metadata" in checkpoints(run)[0].why_not
    STORE.delete(key(f"{run}/step-1/.torchbucket.json"))
    with pytest.raises(CheckpointError, match="no manifest to compare with"):
        verify(f"{run}/step-1")


def test_pruning_keeps_the_newest(run: str) -> None:
    for step in range(5):
        save(f"{run}/step-{step}", prefixes=BinaryPrefixes())
    assert [found.name for found in prune(run, 2, dry_run=True)] == ["step-0", "step-1", "step-2"]
    assert len(checkpoints(run)) == 5
    removed = prune(run, 2, protect=[f"{run}/step-1/"])
    assert [found.name for found in removed] == ["step-0", "step-2"]
    assert [found.name for found in checkpoints(run)] == ["step-1", "step-3", "step-4"]
    assert names(f"{run}/step-0") == []


def test_only_what_we_wrote_is_removed(run: str, tmp_path: Path) -> None:
    save(f"{run}/step-1")
    STORE.write(key(f"{run}/step-1/notes.txt"), b"mine")
    saved_by_pytorch(f"{run}/step-2", tmp_path)
    save(f"{run}/step-3")
    assert [found.name for found in prune(run, 1)] == ["step-1"]
    assert names(f"{run}/step-1") == ["notes.txt"]
    assert [found.name for found in checkpoints(run)] == ["step-2", "step-3"]
    assert not checkpoints(run)[0].is_ours


def saved_by_pytorch(uri: str, directory: Path) -> None:
    dcp.save({"weight": torch.ones(3)}, storage_writer=dcp.FileSystemWriter(directory), no_dist=True)
    for path in directory.iterdir():
        STORE.write(key(f"{uri}/{path.name}"), path.read_bytes())


def test_what_another_program_has_saved_over_ours_is_not_ours(run: str, tmp_path: Path) -> None:
    save(f"{run}/step-1")
    saved_by_pytorch(f"{run}/step-1", tmp_path)
    save(f"{run}/step-2")
    assert prune(run, 1) == []
    assert [(found.is_complete, found.is_ours) for found in checkpoints(run)] == [(True, False), (True, True)]
    with pytest.raises(CheckpointError, match="no manifest to compare with"):
        verify(f"{run}/step-1")


def test_what_cannot_be_told_to_be_incomplete_stays(run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its metadata may name a class that only another program has declared safe."""
    for step in (1, 2):
        save(f"{run}/step-{step}")
    content = bytes(STORE.read(key(f"{run}/step-1/.metadata")).data)
    STORE.write(key(f"{run}/step-1/.metadata"), content.replace(b"StorageMeta", b"StorageBeta"))
    old(monkeypatch)
    assert prune(run, 1) == []
    assert [found.is_complete for found in checkpoints(run)] == [False, True]


def test_a_checkpoint_inside_of_another_stays(run: str) -> None:
    for uri in (f"{run}/step-1", f"{run}/step-1/average", f"{run}/step-2"):
        save(uri, prefixes=BinaryPrefixes())
    assert [found.name for found in prune(run, 1)] == ["step-1"]
    assert is_complete(f"{run}/step-1/average")
    assert {name.partition("/")[0] for name in names(f"{run}/step-1")} == {"average"}


def test_those_without_a_number_stay_where_others_have_one(run: str) -> None:
    for name in ("best", "step-1", "step-2"):
        save(f"{run}/{name}")
    assert [found.name for found in prune(run, 1)] == ["step-1"]


def test_odd_names_are_names(run: str) -> None:
    for name in ("step 1", "schritt-ä2", "%2F-3", "step-10", "step-100"):
        save(f"{run}/{name}")
    STORE.write(key(f"{run}/step 1//__0_0.distcp"), b"")
    assert [found.name for found in prune(run, 2)] == ["step 1", "schritt-ä2", "%2F-3"]
    assert latest(run) == f"{run}/step-100"
    assert is_complete(f"{run}/step-10")


def test_a_rank_by_itself_that_was_not_saved_is_missed(run: str) -> None:
    uri = f"{run}/step-1"
    state = {"weight": torch.ones(3)}
    dcp.save(state, storage_writer=BucketStorageWriter(uri), no_dist=True, use_collectives=False)
    assert is_complete(uri)
    STORE.write(key(f"{uri}/__1.torchbucket.json"), STORE.read(key(f"{uri}/__0.torchbucket.json")).data)
    assert latest(run) is None
    assert checkpoints(run)[0].why_not == "__1.metadata is missing"


def test_a_manifest_that_is_none_is_told_of_its_checkpoint_alone(run: str) -> None:
    save(f"{run}/step-1")
    save(f"{run}/step-2")
    manifest = f"{run}/step-2/.torchbucket.json"
    content = json.loads(bytes(STORE.read(key(manifest)).data))
    content["files"]["__0_0.distcp"]["size_bytes"] = float("inf")
    STORE.write(key(manifest), json.dumps(content).encode())
    assert latest(run) == f"{run}/step-1"
    assert "no manifest of torchbucket" in checkpoints(run)[1].why_not


def test_what_may_still_be_written_stays(run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for step in (1, 2, 3):
        save(f"{run}/step-{step}")
    for step in (1, 3):
        STORE.delete(key(f"{run}/step-{step}/.metadata"))
    assert prune(run, 1) == []  # written to a moment ago
    old(monkeypatch)
    assert [found.name for found in prune(run, 1)] == ["step-1"]
    assert [found.name for found in checkpoints(run)] == ["step-2", "step-3"]  # which is newer than the newest complete


def test_nothing_is_removed_where_none_is_complete(run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    old(monkeypatch)
    for step in (1, 2):
        save(f"{run}/step-{step}")
        STORE.delete(key(f"{run}/step-{step}/.metadata"))
    assert prune(run, 1) == []
    assert len(names(run)) == 4


def test_the_marker_goes_first_and_the_manifest_last(run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for step in (1, 2):
        save(f"{run}/step-{step}", thread_count=2)
    log: list[str] = []
    delete = MemoryStore.delete

    def noted(store: MemoryStore, removed: str, **options: Any) -> None:
        log.append(removed.rpartition("/")[2])
        delete(store, removed, **options)

    monkeypatch.setattr(MemoryStore, "delete", noted)
    prune(run, 1)
    assert log[0] == ".metadata"
    assert log[-1] == ".torchbucket.json"
    assert sorted(log[1:-1]) == ["__0_0.distcp", "__0_1.distcp"]


def test_an_error_is_never_an_empty_list(run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    save(f"{run}/step-1")

    def denied(*_: Any, **__: Any) -> Any:
        raise PermissionDeniedError("list: not allowed")

    monkeypatch.setattr(MemoryStore, "list", denied)
    for ask in (checkpoints, latest, lambda uri: prune(uri, 1), lambda uri: is_complete(f"{uri}/step-1")):
        with pytest.raises(PermissionDeniedError):
            ask(run)


@pytest.mark.parametrize("keep", [0, -1, True, "2", 1.5])
def test_keeping_none_is_refused(run: str, keep: Any) -> None:
    with pytest.raises(ConfigError, match="keep"):
        prune(run, keep)


def test_names_to_protect_are_a_list(run: str) -> None:
    with pytest.raises(ConfigError, match="a list of names"):
        prune(run, 1, protect="step-1")


def ask(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main(["checkpoints", *arguments])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_the_command_does_the_same(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask(capsys, "latest", run) == (1, "", f"torchbucket: {run}: no complete checkpoint\n")
    for step in (1, 2, 3):
        save(f"{run}/step-{step}")
    STORE.delete(key(f"{run}/step-3/.metadata"))
    assert ask(capsys, "latest", run)[:2] == (0, f"{run}/step-2\n")
    status, listed, _ = ask(capsys, "list", run)
    assert status == 0
    lines = listed.splitlines()
    assert [line.split()[0] for line in lines] == ["step-1", "step-2", "step-3"]
    assert lines[1].endswith("  complete")
    assert lines[2].endswith("  not complete: .metadata is missing")
    assert [json.loads(line)["step"] for line in ask(capsys, "list", "--json", run)[1].splitlines()] == [1, 2, 3]
    assert ask(capsys, "verify", f"{run}/step-2")[:2] == (0, "all files are as they were written\n")
    STORE.write(key(f"{run}/step-2/__0_0.distcp"), b"x")
    assert ask(capsys, "verify", f"{run}/step-2")[0] == 1
    assert ask(capsys, "prune", run, "--keep", "0")[0] == 2
    save(f"{run}/step-2")
    assert ask(capsys, "prune", run, "--keep", "1", "--dry-run")[1].split()[0] == "step-1"
    assert ask(capsys, "prune", run, "--keep", "1", "--protect", "step-1")[:2] == (0, "")
    assert ask(capsys, "prune", run, "--keep", "1")[1].split()[0] == "step-1"
    assert names(run) == [f"step-2/{name}" for name in (".metadata", ".torchbucket.json", "__0_0.distcp")] + [
        f"step-3/{name}" for name in (".torchbucket.json", "__0_0.distcp")
    ]


def test_a_checkpoint_is_inspected_by_its_metadata(run: str) -> None:
    save(f"{run}/step-1", prefixes=BinaryPrefixes())
    for uri in (f"{run}/step-1", f"{run}/step-1/"):
        contents = inspect_checkpoint(uri)
        assert (contents.format, contents.uri, contents.other_values) == (
            "torch.distributed.checkpoint",
            f"{run}/step-1",
            1,
        )
        (weight,) = contents.tensors
        assert (weight.name, weight.dtype, weight.shape, weight.size_bytes) == ("weight", "float32", (50,), 200)
        assert weight.file == f"{run}/step-1/0000/__0_0.distcp"
    with pytest.raises(NotFoundError):
        inspect_checkpoint(f"{run}/step-2")
