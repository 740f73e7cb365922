"""The ranks of one job on two machines, each started by that machine's torchrun; node 0 has the records of both."""

from __future__ import annotations

import json
import os
import platform
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from composition import points_of_scenario
from machines import AHEAD_S, Machine, two_machines
from met_nodes import meetings, together

from bucketbench.checkpointing.figures import FIGURES
from bucketbench.cluster import shared_job
from bucketbench.cluster.shared_job import RunRanks, help_with, lead
from bucketbench.configuration.settings import JobSettings
from bucketbench.job.description import Description
from bucketbench.job.environment import measured_environment
from bucketbench.job.process import run_measured_process
from bucketbench.job.testbeds import Testbeds
from bucketbench.results.raw import read_outcome, read_raw
from bucketbench.scenarios import find_scenario

SIZE_BYTES = 3 << 20


@contextmanager
def served_by(machine: Machine, directory: Path) -> Iterator[dict[str, Any]]:
    """A testbed that a machine serves to the other one, as a run tells of it."""
    command = [sys.executable, "-m", "buckettestbed", "--host", machine.address, "--allow-remote", "--opaque-etags"]
    server = machine.start(directory, *command, "--bucket", "bucketbench")
    try:
        assert server.stdout is not None
        yield {**json.loads(server.stdout.readline()), "node": platform.node()}
    finally:
        server.terminate()
        server.communicate()


def run_on(machine: Machine, directory: Path, settings: JobSettings) -> RunRanks:
    """What runs a job's ranks on a machine."""
    python = directory / "python"
    directory.mkdir(exist_ok=True)
    python.write_text(f'#!/bin/sh\nexec {shlex.join([*machine.enter, sys.executable])} "$@"\n')
    python.chmod(0o700)
    return partial(
        run_measured_process, directory, ranks=settings.processes, python=python, time_limit_s=100,
        environment={**measured_environment(os.environ, testbed=True), "GLOO_SOCKET_IFNAME": machine.interface},
        on_progress=lambda word: None,
    )  # fmt: skip


def records(folder: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / name).read_text().splitlines()]


def test_ranks_of_two_machines_save_and_load_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # This process, which leads and helps, is on neither machine, and cannot say what can be reached from there.
    monkeypatch.setattr(shared_job, "_unreachable", lambda job, settings: None)
    with two_machines() as pair, served_by(pair[0], tmp_path / "testbed") as testbed:
        (settings,) = points_of_scenario(
            "dcp_fsdp", "client=torchbucket", "nodes=2", "ranks=2", "repeat=0", "steps=1", "warmup=false",
            "checkpoint=tensors", "checkpoint.tensors=6", "checkpoint.size=3MiB", f"cache_dir={tmp_path / 'cache'}",
            f"target.listen={pair[0].address}",
        )  # fmt: skip
        scenario, job_directory = find_scenario("dcp_fsdp"), tmp_path / "job"
        key = [False, True, str(settings.cache_directory), "bucketbench", pair[0].address]
        with Testbeds(keeps_objects=False, running=[{**testbed, "key": key}]) as testbeds:
            job = scenario.prepared_in(tmp_path, testbeds).job(settings)
        first, second = meetings(2, address=pair[0].address)
        reason, helped = together(
            lambda: lead(
                first, settings, number=0, directory=job_directory,
                description=described(job, scenario.measurement, job_directory),
                own_directories=job.own_directories, run=run_on(pair[0], job_directory, settings),
            ),
            lambda: help_with(
                second, settings, number=0, run_in=lambda directory, own: run_on(pair[1], directory, own)
            ),
        )  # fmt: skip
    assert helped is None
    outcome = read_outcome(job_directory, otherwise=str(reason))
    assert (outcome["status"], outcome["reason"]) == ("ok", None), (job_directory / "benchmark.log").read_text()
    assert outcome["verification"]["checked"] > 0
    saved_s, loaded_bytes = [], 0
    for rank in (0, 1):
        folder = job_directory / "ranks" / str(rank)
        operations = records(folder, "operations.jsonl")
        assert {one["rank"] for one in operations} == {rank}
        measured = {one["kind"]: one for one in operations if one["phase"] == "measure"}
        saved_s.append(measured["save"]["ended_s"] - measured["save"]["started_s"])
        loaded_bytes += measured["load"]["content_bytes"]
    assert loaded_bytes == SIZE_BYTES
    clock = json.loads((job_directory / "ranks" / "1" / "clock.json").read_bytes())
    assert clock["offset_s"] == pytest.approx(-AHEAD_S if pair[1].own_clock else 0, abs=1)
    figures = FIGURES.of_job(*read_raw(job_directory, ended=True), server=None)
    # The slowest rank's, by one clock; by two it would be a day.
    assert figures["save_s"].value == pytest.approx(max(saved_s), abs=AHEAD_S / 10)
    assert figures["save_s"].value >= max(saved_s)
    assert figures["cpu_s"].value is not None, figures["cpu_s"].reason
    assert (job_directory / "benchmark.node-1.log").exists()
    assert list((tmp_path / "cache").glob("checkpoints-*")) == []


def described(job: Any, measurement: str, directory: Path) -> Description:
    """The description of a job, which lies in its directory."""
    directory.mkdir()
    description = Description.of(job, measurement=measurement)
    description.write(directory)
    return description


def test_ranks_that_are_given_up_are_ended_and_the_reason_is_why(tmp_path: Path) -> None:
    (tmp_path / "job.json").write_text("{}")
    end = run_measured_process(
        tmp_path, ranks=1, python=Path(sys.executable), environment={}, time_limit_s=60,
        on_progress=lambda word: None, given_up=lambda: "the ranks on node 1 had failed",
    )  # fmt: skip
    assert not end.ok
    assert not end.timed_out
    assert end.returncode == -9
    assert end.reason == "the ranks on node 1 had failed"
