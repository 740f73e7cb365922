"""The same command on two machines, by torchrun: one job of all their ranks, whose results the first one has."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from machines import Machine, two_machines

# The whole command on both machines, which is four interpreters a node that import torch. On each commit the ranks of a
# job are on two machines in test_shared_ranks.py, and what nodes tell one another is in tests/unit/cluster.
pytestmark = [pytest.mark.timeout(300), pytest.mark.nightly]

MARKER = "BUCKETBENCH_TEST_MARKER"
TENSORS = ["checkpoint=tensors", "checkpoint.tensors=6", "checkpoint.size=3MiB", "network=none", "repeat=0", "steps=1"]


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[Machine, Machine]]:
    with two_machines() as found:
        yield found


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a command ended on a node."""

    status: int
    out: str
    err: str


class Place:
    """Starts one command on both machines, each in a directory of its own, by torchrun's rendezvous."""

    def __init__(self, directory: Path, pair: tuple[Machine, Machine]) -> None:
        self.directory = directory
        self.pair = pair

    def start(self, node: int, *overrides: str) -> subprocess.Popen[str]:
        first = self.pair[0].address
        # The order of the nodes is that of their addresses. On loopback they have one, and any may be the first.
        torchrun = [
            "-m", "torch.distributed.run", "--nnodes=2", "--nproc-per-node=1", "--rdzv-backend=c10d",
            f"--rdzv-endpoint={first}:{port_of(self.directory)}", "--rdzv-id=test",
            f"--local-addr={self.pair[node].address}", f"--rdzv-conf=is_host={int(node == 0)}",
        ]  # fmt: skip
        command = ["--module", "bucketbench.cli", "run", "dcp_fsdp", "nodes=2", "client=torchbucket"]
        shared = [f"target.listen={first}", f"cache_dir={self.directory / 'cache'}"]
        return self.pair[node].start(
            self.directory / f"node-{node}",
            sys.executable, *torchrun, *command, *TENSORS, *shared, *overrides,
            **{MARKER: str(self.directory)},
        )  # fmt: skip

    def finish(self, *nodes: subprocess.Popen[str]) -> list[Ended]:
        told = [node.communicate(timeout=200) for node in nodes]
        return [Ended(status=n.returncode, out=out, err=err) for n, (out, err) in zip(nodes, told, strict=True)]

    def runs(self) -> list[Path]:
        """The directories of all runs, whichever node has them."""
        return [path.parent for path in self.directory.glob("node-*/multirun/dcp_fsdp/*/run.json")]

    def processes(self, *, node: int | None = None) -> list[psutil.Process]:
        """What runs for this place, on one node or on both."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get(MARKER) != str(self.directory) or process.status() == psutil.STATUS_ZOMBIE:
                    continue
                if node is None or process.cwd() == str(self.directory / f"node-{node}"):
                    found.append(process)
            except psutil.Error:
                continue
        return found


def port_of(directory: Path) -> int:
    """A port for a place on loopback, where other tests run too."""
    return 20_000 + hash(str(directory)) % 10_000


def records(folder: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / name).read_text().splitlines()]


@pytest.fixture
def place(tmp_path: Path, pair: tuple[Machine, Machine]) -> Place:
    return Place(tmp_path, pair)


def test_the_first_of_two_machines_has_the_results_of_a_sweep(place: Place) -> None:
    ended = place.finish(*(place.start(node, "ranks=2,4", "warmup=false") for node in (0, 1)))
    assert [one.status for one in ended] == [0, 0], ended
    (run,) = place.runs()
    jobs = json.loads((run / "run_results.json").read_bytes())["jobs"]
    assert [(job["status"], job["parameters"]["ranks"], job["parameters"]["nodes"]) for job in jobs] == [
        ("ok", 2, 2), ("ok", 4, 2),
    ]  # fmt: skip
    for number, world_size in ((0, 2), (1, 4)):
        loaded = [
            one["content_bytes"]
            for rank in range(world_size)
            for one in records(run / str(number) / "ranks" / str(rank), "operations.jsonl")
            if one["kind"] == "load"
        ]
        assert (len(loaded), sum(loaded)) == (world_size, 3 << 20)
    assert "torchbucket" in "".join(one.out for one in ended), "the table, of one node"
    assert place.processes() == []


def test_nodes_with_different_configurations_are_refused_on_both(place: Place) -> None:
    ended = place.finish(place.start(0, "ranks=2"), place.start(1, "ranks=2", "checkpoint.seed=1"))
    assert all(one.status != 0 for one in ended)
    said = [line for one in ended for line in one.err.splitlines() if "checkpoint.seed is" in line]
    assert len(said) == 2, ended
    assert place.runs() == []


def test_a_machine_that_dies_fails_the_job_and_nothing_hangs(place: Place) -> None:
    nodes = [place.start(node, "ranks=2", "steps=500", "checkpoint.size=64MiB", "time_limit_s=100") for node in (0, 1)]
    until_s = time.monotonic() + 100
    while (
        not [p for p in place.processes(node=1) if "bucketbench.worker" in p.cmdline()] and time.monotonic() < until_s
    ):
        time.sleep(0.1)
    time.sleep(3)
    for process in place.processes(node=1):
        process.send_signal(signal.SIGKILL)
    (first,) = place.finish(nodes[0])
    nodes[1].communicate()
    assert first.status != 0
    if place.runs() and place.runs()[0].parts[-4] == "node-0":
        (job,) = json.loads((place.runs()[0] / "run_results.json").read_bytes())["jobs"]
        assert job["status"] == "failed"
        assert "node 1 was waited for to send its records" in job["reason"] or "rank 0: " in job["reason"]
    assert place.processes() == []


def test_the_tasks_of_a_submitted_job_are_its_nodes(tmp_path: Path) -> None:
    pytest.importorskip("submitit")
    done = subprocess.run(
        [
            sys.executable, "-m", "bucketbench.cli", "run", "dcp_fsdp", "client=torchbucket", *TENSORS, "nodes=2",
            "ranks=2", "hydra/launcher=submitit_local", "hydra.launcher.tasks_per_node=2",
        ],
        cwd=tmp_path, env={**os.environ, MARKER: str(tmp_path)}, capture_output=True, text=True, timeout=240,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (results,) = tmp_path.glob("multirun/dcp_fsdp/*/run_results.json")
    (job,) = json.loads(results.read_bytes())["jobs"]
    assert (job["status"], job["parameters"]["nodes"]) == ("ok", 2)
    for rank in (0, 1):
        assert records(results.parent / "0" / "ranks" / str(rank), "operations.jsonl")
