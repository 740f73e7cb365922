"""A trainer with every configured client's ``CheckpointIO`` gets back what it saved, and hears of what failed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fsspec.config
import pytest
import served_trainers
import yaml
from lightning.pytorch.plugins.io import TorchCheckpointIO
from served_trainers import CONFIGURATIONS, shown
from test_checkpoint_clients import ABSENT, BUCKET, target_of

from bucketbench.checkpointing.comparison import StateComparison
from bucketbench.job.interpreters import made_interpreter
from bucketbench.ranks import Ranks
from bucketbench.scenarios.lightning_checkpointing.measurement import trainer_checkpoints
from buckettestbed.launch import RunningTestbed, launch_testbed

CONFIGS: dict[str, dict[str, Any]] = {
    path.stem: yaml.safe_load(path.read_text()) for path in sorted(CONFIGURATIONS.glob("*.yaml"))
}
# A local file needs no bucket, and Lightning over s3fs makes the bucket that is not there, as one makes a directory.
NEED_NO_BUCKET = {"disk", "default-s3fs", "default-s3fs-async"}
# gcsfs has to be told of the testbed before it is imported, and dataflux has an interpreter of its own.
APART = {name for name, config in CONFIGS.items() if name.startswith("default-gcsfs") or "environment" in config}


@pytest.fixture(scope="module")
def testbed(credentials: None) -> Iterator[RunningTestbed]:
    with launch_testbed(buckets=[BUCKET], opaque_etags=True) as testbed:
        yield testbed


def check(name: str, found: dict[str, Any], testbed: RunningTestbed) -> None:
    assert found["wrong"] == []
    assert found["missing"] is not None, "the load of a checkpoint that is not there did not raise"
    assert (found["refused"] is None) == (name in NEED_NO_BUCKET), "a save that failed did not raise"
    assert testbed.open_uploads() == []
    assert testbed.object_counts()[BUCKET] == 0


@pytest.mark.parametrize("name", sorted(CONFIGS.keys() - APART))
def test_a_trainer_gets_back_what_it_saved(
    testbed: RunningTestbed, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fsspec.config, "conf", dict(fsspec.config.conf))
    scheme = CONFIGS[name]["schemes"][0]
    check(name, shown(CONFIGS[name], target_of(testbed, scheme, tmp_path), ABSENT), testbed)


@pytest.mark.nightly
@pytest.mark.parametrize(
    "names",
    [
        ["default-gcsfs", "default-gcsfs-async"],
        ["default-gcsfs-readahead", "default-gcsfs-readahead-async"],
        ["torchbucket", "torchbucket-async"],
    ],
)
def test_a_trainer_on_cloud_storage_gets_back_what_it_saved(
    testbed: RunningTestbed, names: list[str], tmp_path: Path
) -> None:
    answers(Path(sys.executable), names, testbed, tmp_path)


@pytest.mark.nightly  # its environment may have to be made first
@pytest.mark.timeout(900)
def test_a_trainer_gets_back_what_it_saved_by_dataflux(testbed: RunningTestbed, tmp_path: Path) -> None:
    answers(
        made_interpreter("dataflux", client="dataflux", say=print), ["dataflux", "dataflux-async"], testbed, tmp_path
    )


class LoadsNothing(TorchCheckpointIO):
    """Gives no checkpoint where there is one."""

    def load_checkpoint(self, *_: Any, **__: Any) -> Any:
        return None


def test_what_is_no_checkpoint_is_wrong_and_told(testbed: RunningTestbed, tmp_path: Path) -> None:
    client: Any = SimpleNamespace(checkpoint_io=lambda _: LoadsNothing(), saves_local_files=True)
    checkpoints = trainer_checkpoints(client, target_of(testbed, "s3", tmp_path))
    checkpoints.save(served_trainers.state(), "last.ckpt")
    comparison = StateComparison()
    assert comparison.compare(served_trainers.state(), checkpoints.load("last.ckpt"), key="last.ckpt") == 5
    assert "last.ckpt was loaded as NoneType" in str(comparison.counts(Ranks()).failure)


def answers(python: Path, names: Sequence[str], testbed: RunningTestbed, local: Path) -> None:
    configs = [CONFIGS[name] for name in names]
    arguments = [json.dumps(asdict(target_of(testbed, "gs", local))), ABSENT, json.dumps(configs)]
    program = str(Path(served_trainers.__file__))
    done = subprocess.run(
        [str(python), program, *arguments], capture_output=True, text=True, check=False, env=dict(os.environ)
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found.keys() == set(names)
    for name, facts in found.items():
        check(name, facts, testbed)
