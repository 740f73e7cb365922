"""A sweep is refused where its jobs would not get the nodes that they ask for."""

from __future__ import annotations

import pytest
from composition import points_of_scenario

from bucketbench.errors import ConfigurationError
from bucketbench.sweep.node_count import check_nodes

BASIC = {"_target_": "hydra._internal.core_plugins.basic_launcher.BasicLauncher"}
SLURM = {"_target_": "a_package.SlurmLauncher", "nodes": 4, "tasks_per_node": 1}
RAY = {"_target_": "a_package.RayLauncher", "ray": {}}
ASKED = ("repeat=0", "client=torchbucket", "ranks=8")


def test_as_many_as_there_are_will_do() -> None:
    one, four = points_of_scenario("dcp_fsdp", *ASKED, "nodes=1,4")
    check_nodes([one], there=1, launcher=BASIC)
    check_nodes([one], there=1, launcher=RAY)
    check_nodes([four], there=4, launcher=BASIC)
    check_nodes([four], there=1, launcher=SLURM)


def test_another_number_is_refused_with_what_to_do() -> None:
    one, four = points_of_scenario("dcp_fsdp", *ASKED, "nodes=1,4")
    cases = [
        ([one, four], 1, BASIC, r"nodes=4 and this command runs on 1: start it .* --nnodes=4 .* run dcp_fsdp nodes=4"),
        ([one], 4, BASIC, r"nodes=1 and this command runs on 4"),
        ([one], 1, SLURM, r"nodes=1 and SlurmLauncher gives each job 4: set hydra.launcher.nodes=1"),
        ([four], 1, RAY, r"nodes=4 and RayLauncher gives each job 1"),
        ([four], 4, SLURM, r"SlurmLauncher would start jobs elsewhere, and 4 nodes run this command"),
    ]
    for points, there, launcher, words in cases:
        with pytest.raises(ConfigurationError, match=words):
            check_nodes(points, there=there, launcher=launcher)  # type: ignore[arg-type]


def test_ranks_are_shared_out_evenly_and_a_machine_holds_its_share() -> None:
    with pytest.raises(ConfigurationError, match=r"8 ranks cannot be shared out evenly over nodes=3: .* ranks=6"):
        points_of_scenario("dcp_fsdp", *ASKED, "nodes=3")
    with pytest.raises(ConfigurationError, match=r"nodes=2 cannot be used: the jobs of dataset run on one machine"):
        points_of_scenario("dataset", "client=boto3", "repeat=0", "nodes=2", "ranks=2")
    one, four = points_of_scenario("dcp_fsdp", *ASKED, "nodes=1,4")
    assert one.state_copies == 4 * four.state_copies  # type: ignore[attr-defined]


def test_nodes_are_a_parameter_where_there_are_several() -> None:
    one, four = points_of_scenario("dcp_fsdp", *ASKED, "nodes=1,4")
    assert "nodes" not in one.parameters, "so that it is the experiment that it was before"
    assert four.parameters["nodes"] == 4
