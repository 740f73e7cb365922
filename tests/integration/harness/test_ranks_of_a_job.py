"""Two ranks of a job of the dataset scenario: they share the samples, and the job fails with one of them.

Their processes are those that torchrun would start, forked from one that has imported torch. That it starts them is in
``test_dcp_sweep.py``, and at night in ``test_extensions.py``.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from forked_programs import Running, start
from rank_shares import check_that_ranks_shared

from bucketbench.clients.protocol import Target
from bucketbench.cluster.ports import held_port
from bucketbench.datagen import DatasetSpec, ensure_dataset
from bucketbench.job.description import Component, Description
from bucketbench.job.environment import TESTBED_REGION, measured_environment
from bucketbench.results.raw import read_outcome, read_raw
from bucketbench.scenarios.dataset.figures import FIGURES
from bucketbench.scenarios.dataset.job import DatasetJob, LoaderSettings, LocalCopy
from bucketbench.scenarios.dataset.scenario import SCENARIO
from buckettestbed.launch import launch_testbed

SAMPLES = 24
PROGRAM = Path(__file__).with_name("measured_rank_program.py")
IMPORTS = ("bucketbench.scenarios.dataset.measurement", "bucketbench.clients.torchbucket")
LOADER = LoaderSettings(
    num_workers=2, batch_size=4, prefetch_factor=2, start_method="auto", persistent_workers=True, pin_memory=False,
    shuffle=False,
)  # fmt: skip


@pytest.fixture(scope="module")
def fields(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """All of a job but the client; the samples are in a testbed and in files."""
    directory = tmp_path_factory.mktemp("data")
    spec = DatasetSpec(num_samples=SAMPLES, sample_size_bytes=4096, image_format="bytes")
    with launch_testbed(buckets=["data"]) as testbed:
        target = Target(
            scheme="s3", bucket="data", prefix="ranks/", endpoint=testbed.s3_endpoint, region=TESTBED_REGION,
            path_style=True, anonymous=True,
        )  # fmt: skip
        manifest = ensure_dataset(
            target.uri, spec, endpoint=testbed.s3_endpoint, region=TESTBED_REGION, path_style=True, anonymous=True,
            lock_directory=directory,
        )  # fmt: skip
        listed = directory / "samples.jsonl"
        listed.write_text("".join(f"{json.dumps(entry.to_json())}\n" for entry in manifest.entries))
        yield {
            "model": Component(name="none", target="bucketbench.models.none.NoModel"),
            "target": target,
            "samples_file": str(listed),
            "loader": LOADER,
            "epochs": 2,
            "min_measured_s": 1.0,
            "warmup_samples": 4,
            "verify_share": 0.125,
            "seed": 0,
            "device": "cpu",
            "admin_url": testbed.admin,
            "local_copy": LocalCopy(directory=str(directory / "copy"), spec=spec.to_json()),
        }


def started(directory: Path, client: Component, fields: dict[str, Any], port: int) -> list[Running]:
    """The ranks of a job in a directory, which meet at a port."""
    Description.of(DatasetJob(client=client, **fields), measurement=SCENARIO.measurement).write(directory)
    kept = measured_environment(os.environ, testbed=True)
    told = {"WORLD_SIZE": "2", "GROUP_WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    return [
        start(
            PROGRAM, directory, environment={**kept, **told, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            imports=IMPORTS,
        )
        for rank in (0, 1)
    ]  # fmt: skip


def test_two_ranks_share_a_data_set(fields: dict[str, Any], tmp_path: Path) -> None:
    client = Component(name="torchbucket", target="bucketbench.clients.torchbucket.TorchbucketIterable")
    with held_port("127.0.0.1") as port:
        ended = [rank.wait() for rank in started(tmp_path, client, fields, port)]
    assert [rank.returncode for rank in ended] == [0, 0], [rank.stderr for rank in ended]
    found = read_outcome(tmp_path, otherwise="none")
    assert (found["status"], found["reason"]) == ("ok", None)
    check_that_ranks_shared(tmp_path, found["verification"], samples=SAMPLES)
    assert FIGURES.of_job(*read_raw(tmp_path, ended=True))["samples"].value == 2 * SAMPLES


def test_a_job_fails_with_one_of_its_ranks(fields: dict[str, Any], tmp_path: Path) -> None:
    client = Component(name="x", target="sample_clients.FailsOnRankOne", search_path=(str(Path(__file__).parent),))
    with held_port("127.0.0.1") as port:
        first, second = started(tmp_path, client, fields, port)
        ended = first.wait()
    assert ended.returncode == 1, ended.stderr
    os.kill(second.pid, signal.SIGTERM)  # as torchrun does then: the other waits for that
    assert second.wait().returncode == -signal.SIGTERM
    found = read_outcome(tmp_path, otherwise="none")
    assert (found["status"], found["reason"]) == ("failed", "rank 1: RuntimeError: rank 1 has no data")
