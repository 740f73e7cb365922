"""The configuration of the scenario of sharded trainings: every file composes, what cannot be measured is refused."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from composition import points_of_scenario, with_each_option

from bucketbench.clients.lightning_fsdp.files import Disk, Mount
from bucketbench.clients.protocol import Target
from bucketbench.components import build
from bucketbench.configuration.directory import find_conf_directory
from bucketbench.configuration.settings import JobSettings
from bucketbench.errors import ConfigurationError, PreflightError, UsageError
from bucketbench.scenarios.lightning_fsdp.preparation import ShardedTrainingPreparation

CONF = find_conf_directory("lightning_fsdp")
CLIENTS = sorted(path.stem for path in (CONF / "lightning_fsdp" / "client").glob("*.yaml"))
TARGET = Target(scheme="s3", bucket="data", prefix="runs/")


def points(*overrides: str) -> list[JobSettings]:
    return points_of_scenario("lightning_fsdp", *overrides)


def test_every_client_composes_and_has_its_files_name() -> None:
    found = with_each_option(*points("repeat=0", "client=torchbucket"), "client")
    assert [point.client.name for point in found] == CLIENTS
    for point in found:
        client = build(point.client)
        assert callable(client.strategy)
        assert getattr(client, "saves_in_background", False) == (point.client.name == "torchbucket-async")


@pytest.mark.parametrize(("target", "library"), [("local", "s3fs-tuned"), ("local_gs", "gcsfs-readahead")])
def test_the_default_clients_are_those_of_the_targets_scheme(target: str, library: str) -> None:
    clients = [point.client.name for point in points(f"target={target}", "repeat=0")]
    assert clients == ["torchbucket", "torchbucket-async", f"fsspec-{library}", "disk"]


@pytest.mark.parametrize(
    ("override", "reason"), [("ranks=1", "take 2 or more"), ("disable_multipart=true", "no strat")]
)
def test_what_cannot_be_measured_is_refused(override: str, reason: str) -> None:
    (point,) = points("repeat=0", "client=torchbucket", override)
    with pytest.raises(PreflightError, match=reason):
        point.check_fits(memory_bytes=1 << 40, free_disk_bytes=1 << 40)


@pytest.mark.parametrize("action", ["saves_then_loads", "async_save", "reshard"])
def test_what_a_trainer_does_not_do_is_refused(action: str) -> None:
    with pytest.raises(ConfigurationError, match="save_and_load, save, load"):
        points("repeat=0", "client=torchbucket", f"action={action}")


def test_a_load_looks_where_a_save_leaves_its_checkpoint(tmp_path: Path) -> None:
    places = SimpleNamespace(testbed=lambda _: None, target=lambda _: TARGET)
    kept: dict[str, set[tuple[str, str]]] = {}
    for point in points("repeat=0", "client=torchbucket,disk", "action=save_and_load,save,load", f"path={tmp_path}"):
        job = ShardedTrainingPreparation(tmp_path, places).job(point)  # type: ignore[arg-type]
        assert job.course.action == job.action == point.parameters["action"]
        assert ("verify" in point.parameters) == (job.action == "save")
        assert job.local_directory.startswith(f"{tmp_path}/")
        if job.action.keeps_checkpoint:
            assert job.own_directories == ()
            kept.setdefault(point.client.name, set()).add((job.target.prefix, job.local_directory))
        else:
            assert job.own_directories == (job.local_directory,)
    assert [len(of_client) for of_client in kept.values()] == [1, 1]
    assert len(set.union(*kept.values())) == 2


def test_every_rank_has_its_copies() -> None:
    (two,) = points("repeat=0", "client=torchbucket")
    (four,) = points("repeat=0", "client=torchbucket", "ranks=4")
    assert four.state_copies == 2 * two.state_copies  # type: ignore[attr-defined]


def test_a_directory_that_is_no_mount_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="no local directory"):
        Disk().root(TARGET)
    with pytest.raises(UsageError, match="mount the bucket data for writing"):
        Mount().root(TARGET)
    with pytest.raises(UsageError, match="no mounted file system"):
        Mount(directory=str(tmp_path)).root(TARGET)
    monkeypatch.setattr(os.path, "ismount", lambda path: path == tmp_path)
    assert Mount(directory=f"{tmp_path}/").root(TARGET) == f"{tmp_path}/runs/"
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(UsageError, match="for reading only"):
        Mount(directory=str(tmp_path)).root(TARGET)
