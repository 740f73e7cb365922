"""A benchmark that environment variables describe: which key each sets, and what a wrong one is answered with."""

from __future__ import annotations

from pathlib import Path

import pytest
from composition import points_of_scenario

from bucketbench.cli import main
from bucketbench.cluster.variables import MultinodeVariables
from bucketbench.configuration.directory import find_conf_directory
from bucketbench.configuration.settings import JobSettings
from bucketbench.errors import ConfigurationError

BUCKET = {"CKPT_DIR_PATH": "gs://my-bucket/runs/today"}
NAMES = (
    "PROJECT", "CKPT_DIR_PATH", "CKPT_RESTORE_PATH", "NUM_LAYERS", "ACCELERATOR", "NUM_SAVE_CALLS", "NUM_LOAD_CALLS",
    "NUM_NODES", "NUM_DEVICES", "STEPS_PER_SAVE", "USE_ASYNC",
)  # fmt: skip


@pytest.fixture(autouse=True)
def unset(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*NAMES, "GOOGLE_CLOUD_PROJECT"):
        monkeypatch.delenv(name, raising=False)


def composed(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], *overrides: str) -> JobSettings:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    points_of_scenario.__globals__["_composed"].cache_clear()  # it does not know of the environment
    (point,) = points_of_scenario("dcp_fsdp", "+cluster=environment", "repeat=0", *overrides)
    return point


def test_every_variable_sets_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    point = composed(
        monkeypatch,
        {
            **BUCKET, "CKPT_RESTORE_PATH": "gs://my-bucket/runs/today/checkpoints/", "NUM_LAYERS": "20",
            "ACCELERATOR": "gpu", "NUM_SAVE_CALLS": "5", "NUM_LOAD_CALLS": "5", "NUM_NODES": "4", "NUM_DEVICES": "8",
            "USE_ASYNC": "1", "PROJECT": "my-project", "STEPS_PER_SAVE": "2",
        },
    )  # fmt: skip
    config = point.config
    assert (config["target"]["name"], config["target"]["scheme"], config["target"]["bucket"]) == (
        "gs",
        "gs",
        "my-bucket",
    )
    assert point.prefix == "runs/today/checkpoints/"
    assert (config["steps"], config["nodes"], point.processes) == (5, 4, 32)
    assert point.state.layers == 20
    assert (config["action"], config["steps_per_save"], config["backend"]) == ("async_save", 2, "nccl")
    assert point.client.name == "torchbucket"
    assert not point.uses_testbed


def test_what_is_not_set_has_the_benchmarks_default_and_a_command_beats_what_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    point = composed(
        monkeypatch, {"CKPT_DIR_PATH": "s3://my-bucket", "NUM_LAYERS": "20"}, "checkpoint.layers=30", "client=disk"
    )
    assert point.prefix == "checkpoints/"
    assert (point.config["steps"], point.config["nodes"], point.processes) == (3, 1, 1)
    assert (point.config["action"], point.config["backend"]) == ("saves_then_loads", "gloo")
    assert (point.state.layers, point.client.name, point.config["target"]["scheme"]) == (30, "disk", "s3")
    assert MultinodeVariables.from_environment(BUCKET).layers == 10


def test_a_directory_is_the_disk_clients(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    point = composed(monkeypatch, {"CKPT_DIR_PATH": str(tmp_path)})
    assert point.client.name == "disk"
    assert (point.config["path"], point.config["checkpoint"]["storage"]) == (str(tmp_path / "checkpoints"), "disk")
    assert point.uses_testbed, "so that no service is needed"


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"CKPT_DIR_PATH": ""}, r"CKPT_DIR_PATH= cannot be used: expected gs://BUCKET/DIRECTORY, s3://BUCKET"),
        ({"CKPT_DIR_PATH": "runs"}, r"CKPT_DIR_PATH=runs cannot be used: .* or the absolute path of a directory$"),
        ({"CKPT_DIR_PATH": "http://h/d"}, "CKPT_DIR_PATH=http://h/d cannot be used"),
        ({"CKPT_RESTORE_PATH": "gs://other"}, "saved, gs://my-bucket/runs/today/checkpoints$"),
        ({"NUM_LAYERS": "ten"}, "NUM_LAYERS=ten cannot be used: expected a whole number from 1 to 100000"),
        ({"NUM_NODES": "0"}, "NUM_NODES=0 cannot be used"),
        ({"NUM_DEVICES": "all"}, "NUM_DEVICES=all cannot be used: expected auto, or a whole number from 1"),
        ({"NUM_SAVE_CALLS": "3", "NUM_LOAD_CALLS": "4"}, "NUM_SAVE_CALLS=3 and NUM_LOAD_CALLS=4 cannot be used: each"),
        ({"NUM_SAVE_CALLS": "0", "NUM_LOAD_CALLS": "0"}, "NUM_LOAD_CALLS=0 cannot be used: nothing would be measured"),
        ({"STEPS_PER_SAVE": "-1"}, "STEPS_PER_SAVE=-1 cannot be used: expected a whole number from 0"),
        ({"ACCELERATOR": "tpu"}, "ACCELERATOR=tpu cannot be used: expected cpu or gpu"),
        ({"USE_ASYNC": "yes"}, "USE_ASYNC=yes cannot be used: expected 1 or 0"),
    ],
)
def test_a_wrong_variable_is_named_with_what_it_may_be(variables: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        MultinodeVariables.from_environment({**BUCKET, **variables})


@pytest.mark.parametrize(
    ("saves", "loads", "action"), [("3", "0", "save"), ("0", "4", "load"), ("2", "2", "saves_then_loads")]
)
def test_the_number_of_calls_says_what_is_done(saves: str, loads: str, action: str) -> None:
    asked = MultinodeVariables.from_environment({**BUCKET, "NUM_SAVE_CALLS": saves, "NUM_LOAD_CALLS": loads})
    assert (asked.action, asked.steps) == (action, max(int(saves), int(loads)))


def test_a_wrong_variable_is_one_message_at_the_command_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CKPT_DIR_PATH", "gs://my-bucket")
    monkeypatch.setenv("NUM_LAYERS", "ten")
    assert main(["run", "dcp_fsdp", "+cluster=environment"]) == 2
    expected = "bucketbench: NUM_LAYERS=ten cannot be used: expected a whole number from 1 to 100000"
    assert [line for line in capsys.readouterr().err.splitlines() if line.strip()] == [expected]


def test_the_file_names_every_variable() -> None:
    text = (find_conf_directory("dcp_fsdp") / "cluster" / "environment.yaml").read_text()
    assert [name for name in NAMES if name not in text] == []
