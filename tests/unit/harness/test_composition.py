"""Every configuration file composes, and a sweep expands to the points, in the order, that were asked for."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from composition import changed, points_of_scenario, swept_by_scenario, with_each_option

from bucketbench.configuration.directory import find_conf_directory
from bucketbench.configuration.settings import JobSettings
from bucketbench.errors import ConfigurationError
from bucketbench.scenarios import find_scenario, scenario_names
from bucketbench.sinks.chosen import built_sink, chosen_sink

CONF = find_conf_directory("dataset")
GROUPS = ("target", "network", "faults", "data", "client", "model", "dataloader", "workload", "sink")
SET = ["target.bucket=a-bucket", "data.prefix=a/prefix"]  # what target=s3 and data=existing leave to the user


def options(group: str) -> list[str]:
    folder = CONF / "dataset" / group if group == "client" else CONF / group
    # MLPerf's workloads of checkpoints are composed with the scenarios that they are for.
    return sorted(path.stem for path in folder.glob("*.yaml") if not path.stem.startswith("mlperf_"))


def points(*overrides: str, directory: Path | None = None) -> list[JobSettings]:
    return points_of_scenario("dataset", *overrides, directory=directory)


def swept(*overrides: str) -> list[dict[str, str]]:
    return swept_by_scenario("dataset", *overrides)


def chosen(group: str, point: JobSettings) -> object:
    """The name of the option of a group that a point has; two groups keep theirs beside the options' content."""
    named = {"network": point.network, "faults": point.faults}
    return named[group] if group in named else point.config[group].get("name")


def test_each_client_has_the_keys_of_a_client() -> None:
    (boto3,) = points("client=boto3", "repeat=0")
    shards = changed(boto3, "data", {**boto3.config["data"], "samples_per_shard": 8})
    assert [point.client.name for point in with_each_option(shards, "client")] == options("client")


@pytest.mark.nightly
@pytest.mark.parametrize("scenario", [name for name in scenario_names() if name != "dataset"])
def test_each_client_of_the_other_scenarios_composes(scenario: str) -> None:
    folder = CONF / (find_scenario(scenario).clients or scenario) / "client"
    clients = sorted(path.stem for path in folder.glob("*.yaml"))
    found = points_of_scenario(scenario, "repeat=0", f"client={','.join(clients)}")
    assert [point.client.name for point in found] == clients


@pytest.mark.parametrize(
    "group",
    [
        "target", "faults", "data", "model", "dataloader", "workload",
        pytest.param("network", marks=pytest.mark.nightly),  # composed with the listing scenario on each commit
    ],
)  # fmt: skip
def test_each_option_composes(group: str) -> None:
    found = points("repeat=0", *SET, "client=boto3", f"{group}={','.join(options(group))}")
    if group == "dataloader":  # whose options have no name
        assert len(found) == len(options(group))
        assert all(point.config[group]["num_workers"] is not None for point in found)
    else:
        assert [chosen(group, point) for point in found] == options(group)


@pytest.mark.parametrize(
    "chosen", [[], ["sink=dynamodb", "sink.table=a-table"], ["sink=bigquery", "sink.dataset=a_data_set"]]
)
def test_a_sink_is_no_part_of_what_is_compared(chosen: list[str]) -> None:
    (point,) = points("client=boto3", "repeat=0", *chosen)
    assert not any(name.startswith("sink") for name in point.parameters)
    sink = chosen_sink(point.config["sink"])
    assert (sink is None) == (not chosen)
    if sink is not None:
        built_sink(sink)


def test_every_group_and_file_is_known() -> None:
    found = {path.relative_to(CONF).parts[0] for path in CONF.rglob("*.yaml")}
    scenarios = scenario_names()
    files = {f"{name}.yaml" for name in scenarios}
    clients = {find_scenario(name).clients or name for name in scenarios}
    beside = {"prices", "scale", "service"}  # of `bucketbench scale`
    assert found == {*files, *clients, *beside, "hydra", "checkpoint", "cluster", *GROUPS} - {"client"}


@pytest.mark.nightly
@pytest.mark.parametrize("group", ["network", "faults", "client"])
def test_all_options_compose_on_every_target(group: str) -> None:
    swept = {"target": options("target"), "client": ["boto3"]} | {group: options(group)}
    found = points("repeat=0", *SET, *(f"{name}={','.join(names)}" for name, names in swept.items()))
    expected = [(target, option) for target in swept["target"] for option in swept[group]]
    assert [(point.config["target"]["name"], chosen(group, point)) for point in found] == expected


@pytest.mark.parametrize("group", ["target", "data", "client", "model", "sink"])
def test_the_name_of_an_option_is_the_name_in_its_file(group: str) -> None:
    for option in options(group):
        folder = CONF / "dataset" / group if group == "client" else CONF / group
        assert f"\nname: {option}\n" in (folder / f"{option}.yaml").read_text()


def test_the_default_sweep_repeats_six_times_and_interleaves() -> None:
    found = swept()
    clients = [point["client"] for point in found if point["repeat"] == "0"]
    assert len(clients) > 3
    assert [point["repeat"] for point in found] == [str(repeat) for repeat in range(6) for _ in clients]
    names, size = [point["client"] for point in found], len(clients)
    blocks = [names[start : start + size] for start in range(0, len(names), size)]
    assert all(sorted(block) == sorted(clients) for block in blocks)
    assert blocks != [clients] * 6, "an order of its own each, drawn by hydra.sweeper.order_seed"


def test_shards_are_read_by_those_that_know_what_is_in_them() -> None:
    for scheme, target in (("s3", "local"), ("gs", "local_gs")):
        found = points("workload=tar_shards", f"target={target}", "repeat=0")
        assert [point.client.name for point in found] == found[0].config["default_clients"][f"{scheme}_tar"]
        assert {point.parameters["samples"] for point in found} == {"members"}
    (whole,) = points("workload=tar_shards", "client=boto3", "repeat=0")
    assert "samples" not in whole.parameters
    assert whole.parameters["data.samples_per_shard"] == 125
    assert whole.prefix != changed(whole, "data.samples_per_shard", 126).prefix
    # A batch is of whole shards there, and of samples here.
    assert whole.batch_memory_bytes() > found[0].batch_memory_bytes()


def test_repeats_are_slowest_and_clients_fastest_whatever_else_is_swept() -> None:
    found = swept("client=boto3,raw", "dataloader.num_workers=0,2", "repeat=range(2)", "hydra.sweeper.order_seed=null")
    assert [(p["repeat"], p["dataloader.num_workers"], p["client"]) for p in found] == [
        (repeat, workers, client) for repeat in "01" for workers in "02" for client in ("boto3", "raw")
    ]


def test_clients_among_the_sweepers_parameters_are_the_fastest_key_too() -> None:
    fixed = "hydra.sweeper.order_seed=null"
    found = swept("++hydra.sweeper.params.client='raw,boto3'", "dataloader.num_workers=0,2", "repeat=range(2)", fixed)
    assert [(p["repeat"], p["dataloader.num_workers"], p["client"]) for p in found] == [
        (repeat, workers, client) for repeat in "01" for workers in "02" for client in ("raw", "boto3")
    ]


def test_the_last_client_override_wins_as_in_hydra() -> None:
    assert [point["client"] for point in swept("client=boto3", "repeat=0", "client=raw")] == ["raw"]


@pytest.mark.parametrize("spelling", ["+disambiguator=try1", "disambiguator=try1"])
def test_a_disambiguator_marks_a_run_and_is_no_parameter(spelling: str) -> None:
    (point,) = points("client=boto3", "repeat=0", spelling)
    assert point.config["disambiguator"] == "try1"
    assert "disambiguator" not in point.parameters


def test_parameters_tell_apart_what_is_swept_and_nothing_else() -> None:
    boto3, raw = points("client=boto3,raw", "repeat=0")
    assert boto3.parameters == raw.parameters == changed(raw, "repeat", 1).parameters
    low, high = (changed(boto3, "network.first_byte_s", seconds) for seconds in (0.01, 0.05))
    assert (low.parameters["network.first_byte_s"], high.parameters["network.first_byte_s"]) == (0.01, 0.05)
    small, large = (changed(raw, "client.options.transfers", transfers) for transfers in (8, 64))
    assert small.parameters == large.parameters, "two contestants of one experiment"
    assert (small.client_options["options.transfers"], large.client_options["options.transfers"]) == (8, 64)


def test_an_edited_file_is_another_experiment_though_its_name_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (before,) = points("client=boto3", "repeat=0")
    shutil.copytree(CONF, tmp_path / "conf")
    edited = tmp_path / "conf" / "network" / "regional.yaml"
    edited.write_text(edited.read_text().replace("first_byte_s: 0.02", "first_byte_s: 0.03"))
    monkeypatch.chdir(tmp_path)
    (after,) = points("client=boto3", "repeat=0")
    assert (before.network, after.network) == ("regional", "regional")
    differing = {name for name, value in after.parameters.items() if before.parameters[name] != value}
    assert differing == {"network.first_byte_s"}


def test_a_workload_beats_the_scenarios_file_and_that_the_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(CONF, tmp_path / "conf")
    file = tmp_path / "conf" / "dataset.yaml"
    file.write_text(f"{file.read_text()}\ndataloader:\n  num_workers: 5\n")
    monkeypatch.chdir(tmp_path)
    plain, workload = points("client=boto3", "repeat=0", "workload=none,unet3d")
    assert (plain.config["dataloader"]["num_workers"], workload.config["dataloader"]["num_workers"]) == (5, 4)


def test_the_network_is_no_parameter_of_a_real_service() -> None:
    (point,) = points("client=boto3", "repeat=0", "target=s3", *SET)
    assert point.parameters["network"] is None
    assert point.parameters["target.bucket"] == "a-bucket"


def test_opaque_etags_are_a_parameter_of_the_testbed_alone() -> None:
    plain, opaque = points("client=boto3", "repeat=0", "target.opaque_etags=false,true")
    differing = {name for name, value in opaque.parameters.items() if plain.parameters[name] != value}
    assert differing == {"target.opaque_etags"}
    (elsewhere,) = points("client=boto3", "repeat=0", "target=s3", *SET)
    assert "target.opaque_etags" not in elsewhere.parameters
    with pytest.raises(ConfigurationError, match=r"target=s3 is a real service, .* take target=local"):
        changed(elsewhere, "target.opaque_etags", True)


def test_another_data_set_gets_another_prefix() -> None:
    found = points("client=boto3", "repeat=0", "data=jpeg_100kib,jpeg_mixed,png_1mib")
    for key, value in {"num_samples": "2k", "seed": 1, "resolution": "64x64"}.items():
        found.append(changed(found[0], f"data.{key}", value))
    prefixes = {point.prefix for point in found}
    assert len(prefixes) == 6
    assert all(prefix.endswith("/") for prefix in prefixes)
    assert changed(found[0], "data.prefix", "mine/it").prefix == "mine/it/"


def test_a_users_client_needs_three_lines(tmp_path: Path) -> None:
    (tmp_path / "client").mkdir()
    (tmp_path / "client" / "mine.yaml").write_text("name: mine\n_target_: my_loader.Mine\n")
    (point,) = points("client=mine", "repeat=0", directory=tmp_path)
    assert point.client.target == "my_loader.Mine"
    assert point.client.search_path == (str(tmp_path),)
    assert point.client.module == "my_loader"


def test_a_path_of_a_client_goes_before_the_config_directories(tmp_path: Path) -> None:
    (tmp_path / "client").mkdir()
    (tmp_path / "client" / "mine.yaml").write_text("name: mine\n_target_: my_loader.Mine\npath: /elsewhere\n")
    (point,) = points("client=mine", "repeat=0", directory=tmp_path)
    assert point.client.search_path == ("/elsewhere",)


def test_the_users_own_conf_comes_first(tmp_path: Path) -> None:
    assert find_conf_directory("dataset", current=tmp_path).samefile(CONF)
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "dataset.yaml").write_text("")
    assert find_conf_directory("dataset", current=tmp_path) == tmp_path / "conf"


def test_a_client_may_be_given_in_line(tmp_path: Path) -> None:
    (point,) = points(
        "client=boto3", "repeat=0", "client.name=mine", "client._target_=my_loader.Mine", f"client.path={tmp_path}",
        "client.requires=[]", "+client.options.part=8",
    )  # fmt: skip
    assert (point.client.name, point.client.target, point.client.search_path) == (
        "mine", "my_loader.Mine", (str(tmp_path),),
    )  # fmt: skip
    assert point.client.options == {"part": 8}


def test_the_sweeps_process_imports_neither_torch_nor_a_client() -> None:
    program = (
        "import sys, bucketbench.sweep.sweep, bucketbench.report.table; from bucketbench.scenarios import *; "
        "[find_scenario(name) for name in scenario_names()]; "
        "print(sorted({'torch', 'boto3', 'obstore', 's3torchconnector', 'transformers'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
