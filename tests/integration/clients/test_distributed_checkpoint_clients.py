"""Every configured client of distributed checkpoints gives back what it saved, and tells whether it is there."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import served_distributed_checkpoints
import yaml
from served_distributed_checkpoints import CONFIGURATIONS, shown

from bucketbench.clients.protocol import Target
from bucketbench.job.interpreters import made_interpreter
from buckettestbed.launch import RunningTestbed, launch_testbed

CONFIGS: list[dict[str, Any]] = [yaml.safe_load(path.read_text()) for path in sorted(CONFIGURATIONS.glob("*.yaml"))]
BUCKET = "checkpoints"
# Other settings of what another configuration runs as well.
AT_NIGHT = {"s3torchconnector-tuned", "torchbucket-async", "torchbucket-once"}
CASES = [
    pytest.param(
        config,
        scheme,
        id=f"{config['name']}-{scheme}",
        marks=[pytest.mark.nightly] if config["name"] in AT_NIGHT else [],
    )
    for config in CONFIGS
    if config.get("environment") is None
    for scheme in config["schemes"]
]
RIGHT = {"wrong": [], "there": [False, True, False]}


@pytest.fixture(scope="module")
def testbed(credentials: None) -> Iterator[RunningTestbed]:
    with launch_testbed(buckets=[BUCKET], opaque_etags=True) as testbed:
        yield testbed


def target_of(testbed: RunningTestbed, scheme: str, local: Path) -> Target:
    if scheme == "file":
        return Target(scheme="file", bucket="", prefix=f"{str(local).strip('/')}/", local_directory=str(local))
    is_s3 = scheme == "s3"
    return Target(
        scheme=scheme,
        bucket=BUCKET,
        prefix="runs/",
        endpoint=testbed.s3_endpoint if is_s3 else testbed.gcs_endpoint,
        region="us-east-1" if is_s3 else None,
        path_style=True,
        anonymous=not is_s3,
        local_directory=str(local),
    )


@pytest.mark.parametrize(("config", "scheme"), CASES)
def test_a_state_comes_back_as_it_was_saved(
    testbed: RunningTestbed, config: dict[str, Any], scheme: str, tmp_path: Path
) -> None:
    found = shown(config, target_of(testbed, scheme, tmp_path))
    assert found.pop("missing") is not None, "the load of a checkpoint that is not there did not raise"
    assert found == RIGHT
    assert (testbed.object_counts()[BUCKET], testbed.open_uploads()) == (0, [])


@pytest.mark.nightly  # its environment may have to be made first
def test_a_state_comes_back_through_dataflux(testbed: RunningTestbed, tmp_path: Path) -> None:
    configs = [config for config in CONFIGS if config.get("environment") == "dataflux"]
    python = made_interpreter("dataflux", client="dataflux", say=print)
    arguments = [json.dumps(asdict(target_of(testbed, "gs", tmp_path))), json.dumps(configs)]
    program = str(Path(served_distributed_checkpoints.__file__))
    done = subprocess.run([str(python), program, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert list(found) == [config["name"] for config in configs] == ["dataflux"]
    assert found["dataflux"].pop("missing") is not None
    assert found["dataflux"] == RIGHT
    assert testbed.object_counts()[BUCKET] == 0
