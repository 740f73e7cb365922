"""Which node a process is on, by its environment, and what a wrong environment is answered with."""

from __future__ import annotations

import pytest

from bucketbench.cluster.nodes import Nodes
from bucketbench.errors import ConfigurationError

TORCHRUN = {"RANK": "1", "WORLD_SIZE": "3", "MASTER_ADDR": "a-host", "MASTER_PORT": "29400", "LOCAL_WORLD_SIZE": "1"}


def test_a_process_by_itself_is_the_only_node() -> None:
    for environment in ({}, {"WORLD_SIZE": "4"}, {"RANK": "", "MASTER_ADDR": "a-host"}, {"RANK": "0"}):
        assert Nodes.from_environment(environment) == Nodes(index=0, count=1)


def test_torchrun_tells_each_node_its_place() -> None:
    nodes = Nodes.from_environment(TORCHRUN)
    assert nodes == Nodes(index=1, count=3, address="a-host", port=29400)
    assert not nodes.is_first
    by_hand = {name: value for name, value in TORCHRUN.items() if name != "LOCAL_WORLD_SIZE"}
    assert Nodes.from_environment(by_hand) == nodes
    assert Nodes.from_environment({**TORCHRUN, "RANK": "0", "WORLD_SIZE": "1"}) == Nodes()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"MASTER_ADDR": "", "MASTER_PORT": ""}, r"RANK=1 is set and MASTER_ADDR and MASTER_PORT are not: start each"),
        ({"RANK": "3"}, r"RANK=3 is none of the WORLD_SIZE=3 nodes, which count from 0"),
        ({"WORLD_SIZE": "three"}, r"WORLD_SIZE=three cannot be used: expected a whole number"),
        ({"LOCAL_WORLD_SIZE": "4"}, r"torchrun has started 4 processes here, .* --nproc-per-node=1, and say by ranks="),
    ],
)
def test_an_impossible_environment_is_refused(change: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        Nodes.from_environment({**TORCHRUN, **change})


def test_the_tasks_of_one_submitted_job_are_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("submitit")
    task = {
        "SUBMITIT_EXECUTOR": "local", "SUBMITIT_LOCAL_JOB_ID": "17", "SUBMITIT_LOCAL_NTASKS": "2",
        "SUBMITIT_LOCAL_GLOBALID": "1", "SUBMITIT_LOCAL_LOCALID": "1", "SUBMITIT_LOCAL_NNODES": "1",
        "SUBMITIT_LOCAL_NODEID": "0",
    }  # fmt: skip
    for name, value in task.items():
        monkeypatch.setenv(name, value)
    nodes = Nodes.from_environment()
    assert (nodes.index, nodes.count, nodes.address, nodes.of_one_job) == (1, 2, "127.0.0.1", True)
    monkeypatch.setenv("SUBMITIT_LOCAL_GLOBALID", "0")
    assert Nodes.from_environment().port == nodes.port
    monkeypatch.setenv("SUBMITIT_LOCAL_NTASKS", "1")
    assert Nodes.from_environment() == Nodes()
