"""The configuration of distributed checkpoints: what composes, what a key comes to, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from composition import changed, points_of_scenario, with_each_option

from bucketbench.checkpointing.course import Action
from bucketbench.checkpointing.distributed_preparation import DistributedCheckpointingPreparation
from bucketbench.checkpointing.distributed_settings import DistributedCheckpointingSettings
from bucketbench.cli import main
from bucketbench.clients.protocol import Target
from bucketbench.configuration.directory import find_conf_directory
from bucketbench.errors import ConfigurationError, PreflightError
from bucketbench.sweep.schemes import check_scheme

CONF = find_conf_directory("dcp_fsdp")
CLIENTS = sorted(path.stem for path in (CONF / "dcp" / "client").glob("*.yaml"))
SCENARIOS = ("dcp_simulated", "dcp_ddp", "dcp_fsdp")


def points(*overrides: str, scenario: str = "dcp_fsdp") -> list[DistributedCheckpointingSettings]:
    found = points_of_scenario(scenario, "repeat=0", *overrides)
    assert all(isinstance(point, DistributedCheckpointingSettings) for point in found)
    return found  # type: ignore[return-value]  # as has been asserted


def point(*overrides: str) -> DistributedCheckpointingSettings:
    (found,) = points(*overrides) if "client=" in str(overrides) else points("client=torchbucket", *overrides)
    return found


class Nowhere:
    """Places without a testbed."""

    def testbed(self, settings: Any) -> None:
        return None

    def target(self, settings: DistributedCheckpointingSettings) -> Target:
        return Target(scheme="s3", bucket="b", prefix=settings.prefix)


def job(settings: DistributedCheckpointingSettings) -> Any:
    return DistributedCheckpointingPreparation(Path(), Nowhere()).job(settings)  # type: ignore[arg-type]  # a stub


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_scenario_composes(scenario: str) -> None:
    (found,) = points("client=torchbucket", "action=load", scenario=scenario)
    assert (found.scenario, found.action) == (scenario, Action.LOAD)


def test_every_client_composes_and_has_its_files_name() -> None:
    found = with_each_option(point(), "client")
    assert [one.client.name for one in found] == CLIENTS
    assert {one.client.module.rpartition(".")[0] for one in found} == {"bucketbench.clients.dcp"}
    assert all("thread_count" in one.client.options for one in found)


def test_other_names_of_keys_are_the_same_parameters() -> None:
    usual, other = point("ranks=4", "steps=3"), point("world_size=4", "epochs=3")
    assert usual.parameters == other.parameters
    assert (other.parameters["ranks"], other.parameters["steps"], other.processes) == (4, 3, 4)
    assert {"world_size", "epochs"}.isdisjoint(other.parameters)


def test_ranks_share_a_states_memory_unless_each_has_all_of_it() -> None:
    sharded, replicated = point("ranks=8"), points("client=torchbucket", "ranks=8", scenario="dcp_ddp")[0]
    assert (sharded.state_copies, replicated.state_copies) == (4, 32)
    sharded.check_fits(memory_bytes=1 << 30, free_disk_bytes=0)
    with pytest.raises(PreflightError, match="34 times its size"):
        replicated.check_fits(memory_bytes=1 << 30, free_disk_bytes=0)


def test_what_belongs_to_an_action_is_a_parameter_of_that_action() -> None:
    plain = point()
    assert {"load_ranks", "async_checkpointer", "reuse_stager", "verify", "steps_per_save"}.isdisjoint(plain.parameters)
    background = changed(plain, "action", "async_save").parameters
    assert (background["async_checkpointer"], background["verify"]) == ("thread", True)
    trained = changed(plain, "steps_per_save", 10).parameters
    assert (trained["steps_per_save"], trained["step_time_s"]) == (10, 0.1)


@pytest.mark.parametrize(("load_ranks", "processes"), [(1, 2), (3, 3)])
def test_a_resharding_job_has_as_many_processes_as_the_larger_of_both(load_ranks: int, processes: int) -> None:
    settings = changed(changed(point(), "load_ranks", load_ranks), "action", "reshard")
    assert isinstance(settings, DistributedCheckpointingSettings)
    assert (settings.save_ranks, settings.load_ranks, settings.processes) == (2, load_ranks, processes)
    assert settings.parameters["load_ranks"] == load_ranks
    described = job(settings)
    assert (described.save_ranks, described.load_ranks, described.action) == (2, load_ranks, Action.RESHARD)


def test_threads_are_those_of_all_clients_or_of_each_ones_file() -> None:
    usual = point("client=s3torchconnector-tuned")
    assert usual.client.options["thread_count"] == 4
    assert "thread_count" not in usual.parameters
    set_for_all = changed(usual, "thread_count", 8)
    assert (set_for_all.client.options["thread_count"], set_for_all.parameters["thread_count"]) == (8, 8)


def test_an_optimizers_states_are_part_of_the_state() -> None:
    plain, adamw = point(), changed(point(), "checkpoint.optimizer", "adamw")
    assert isinstance(adamw, DistributedCheckpointingSettings)
    assert adamw.state.total_bytes > 3 * plain.state.total_bytes
    assert adamw.parameters["checkpoint.size_bytes"] == adamw.state.total_bytes
    assert adamw.parameters["checkpoint.optimizer"] == "adamw"
    assert "and adamw" in adamw.state.words


@pytest.mark.parametrize(
    ("name", "ranks", "size_gib"), [("8b", 8, 105), ("70b", 64, 912), ("405b", 512, 5290), ("1t", 1024, 18000)]
)
def test_mlperfs_checkpoints_have_the_published_size_divided_by_the_scale(name: str, ranks: int, size_gib: int) -> None:
    found = point(f"workload=mlperf_{name}")
    parameters, scale = found.parameters, found.config["workload"]["scale"]
    assert (parameters["workload.name"], parameters["workload.scale"]) == (f"mlperf_{name}", scale)
    assert (parameters["action"], parameters["steps"], parameters["ranks"]) == ("saves_then_loads", 10, 2)
    assert parameters["checkpoint.size_bytes"] == pytest.approx((size_gib << 30) / scale, rel=1e-3)
    found.check_fits(memory_bytes=8 << 30, free_disk_bytes=0)

    published = changed(found, "workload.scale", 1)
    assert published.processes == published.parameters["ranks"] == ranks
    assert published.parameters["checkpoint.size_bytes"] == size_gib << 30
    eighth = changed(found, "workload.scale", 4)
    assert eighth.processes == max(2, ranks // 4)
    with pytest.raises(PreflightError, match="tensors"):
        published.check_fits(memory_bytes=64 << 30, free_disk_bytes=0)


def test_a_later_job_finds_what_one_that_only_saves_has_left() -> None:
    saves = changed(point(), "action", "save")
    loads = changed(saves, "action", "load")
    assert job(saves).target == job(loads).target
    assert job(saves).local_directory == job(loads).local_directory
    assert job(saves).own_directories == (), "what is left there stays"
    assert job(saves).target.prefix.startswith("bucketbench/dcp_fsdp/saves/torchbucket/transformer-2-ranks-")
    others = [
        changed(loads, "ranks", 3), changed(loads, "checkpoint.seed", 1), changed(loads, "checkpoint.optimizer", "sgd"),
        points("client=disk", "action=load")[0], points("client=torchbucket", "action=load", scenario="dcp_ddp")[0],
    ]  # fmt: skip
    assert len({job(one).target.prefix for one in [loads, *others]}) == 6, "each has a state, or a client, of its own"
    assert job(changed(loads, "steps", 5)).target == job(loads).target
    usual = job(point())
    assert usual.own_directories == (usual.local_directory,)
    assert "/saves/" not in usual.target.prefix


def test_local_files_are_where_the_path_says() -> None:
    settings = changed(point("client=disk"), "path", "/mnt/nvme")
    assert Path(job(settings).local_directory).parent == Path("/mnt/nvme")
    assert settings.parameters["path"] == "/mnt/nvme", "another disk is another experiment"
    assert "path" not in point().parameters


def test_a_disk_takes_the_buckets_place() -> None:
    settings = changed(changed(point(), "path", "/mnt/nvme"), "checkpoint.storage", "disk")
    check_scheme(settings)
    described = job(settings)
    assert described.target.uri == f"file://{described.local_directory}/"
    assert settings.parameters["checkpoint.storage"] == "disk"
    with pytest.raises(PreflightError, match=r"reads s3, and checkpoint.storage=disk is file: .* disk, torchbucket"):
        check_scheme(changed(point("client=s3torchconnector"), "checkpoint.storage", "disk"))


def test_gpus_are_asked_for_where_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    settings = changed(point(), "backend", "nccl")
    with pytest.raises(
        PreflightError, match="backend=nccl needs a GPU for each of the 2 ranks of a machine, and 0 can be used here"
    ):
        settings.check_fits(memory_bytes=64 << 30, free_disk_bytes=0)


REFUSED = {
    ("action", "reshard"): "load_ranks=null: action=reshard .* the 2 that save: add load_ranks=4",
    ("action", "saves_then_loads"): "steps=auto: .* add steps=10",
    ("action", "restore"): "one of save_and_load, saves_then_loads, save, load, async_save, reshard",
    ("workload.scale", 2.0): "workload.scale=2 divides the size of equal tensors, and checkpoint.model=transformer",
    ("checkpoint.optimizer", "lion"): "one of none, sgd, adamw",
    ("checkpoint.storage", "s3"): "one of bucket, disk",
    ("backend", "mpi"): "one of gloo, nccl",
    ("thread_count", 0): "null or a whole number from 1 to 256",
    ("async_checkpointer", "fork"): "one of thread, process",
    ("epochs", 0): "null, auto, or a whole number",
    ("step_time_s", 0): "a number above 0",
}


@pytest.mark.parametrize(("key", "value"), REFUSED)
def test_a_wrong_value_is_refused_with_what_is_accepted(key: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=REFUSED[key, value]):
        changed(point(), key, value)


def test_checkpoints_that_take_one_anothers_place_cannot_be_loaded_later() -> None:
    settings = changed(point(), "steps", 3)
    with pytest.raises(ConfigurationError, match=r"save_only_latest=true: action=saves_then_loads .* leave .* out"):
        changed(changed(settings, "save_only_latest", True), "action", "saves_then_loads")


def test_a_client_without_threads_is_told_so() -> None:
    settings = point()
    config = {**settings.config, "thread_count": 4, "client": {**settings.config["client"], "options": {}}}
    with pytest.raises(ConfigurationError, match="thread_count=4: client=torchbucket has no option thread_count"):
        type(settings)(config=config, network="regional", faults="none")


def test_every_workload_of_checkpoints_has_its_published_size_checked() -> None:
    names = {path.stem for path in (CONF / "workload").glob("mlperf_*.yaml")}
    assert names == {"mlperf_8b", "mlperf_70b", "mlperf_405b", "mlperf_1t"}


def test_a_mistake_is_one_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["run", "dcp_ddp", "repeat=0", "client=torchbucket", "action=reshard"]) == 2
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert "load_ranks" in said.err
    assert list(tmp_path.iterdir()) == []
