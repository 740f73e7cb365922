"""A user's mistake is one message that names what to change, exit status 2, and no traceback."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from composition import changed, points_of_scenario

from bucketbench.cli import main
from bucketbench.errors import ConfigurationError
from bucketbench.scenarios import scenario_names


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


MISTAKES = {
    "client=nobody": ["client=nobody", "the options are", "torchbucket-map"],
    "client=boto3,nobody": ["client=nobody", "the options are"],
    "network=nowhere": ["network=nowhere", "regional"],
    "epohcs=2": ["epohcs", "did you mean epochs?"],
    "+bogus=1": ["bogus", "no key"],
    "target.bukket=x": ["target.bukket", "did you mean target.bucket?"],
    "target=s3": ["target.bucket", "must be set", "target.bucket=VALUE"],
    "epochs=0": ["epochs=0", "from 1"],
    "epochs=many": ["epochs", "many"],
    "dataloader.num_workers=0,many": ["dataloader.num_workers", "many"],
    "client=[": ["client=[", "KEY=VALUE"],
    "client._target_=no_such_module.Loader": ["no_such_module", "client.path"],
    "client.requires=[no_such_package]": ["not installed here: install no_such_package, or leave"],
    "+client.options.secret_key=abc": ["client.options.secret_key", "credential", "environment"],
    "target.endpoint=https://user:word@host": ["target.endpoint", "credential"],
    "+client.options.threads=4": ["client=boto3, client.options", "no option threads"],
    "+options_for.boto.threads=4": ["+options_for.boto.threads", "did you mean options_for.boto3.threads?"],
    "data.num_samples=1000M": ["TiB", "left", "cache_dir"],
    "repeat=0,0": ["repeat=0", "more than once", "repeat=range(N)"],
    "client=boto3,boto3": ["client=boto3", "more than once"],
    "+disambiguator=x,y": ["disambiguator=x,y", "a run for each"],
    "label=x,y": ["label=x,y", "a run for each"],
    "cache_dir=one,two": ["two points", "'boto3'", "could not be told apart"],
    "data=existing": ["data.prefix", "must be set", "data.prefix=VALUE"],
    "data.max_samples=3": ["data.max_samples=3", "data=existing"],
    "data.num_samples=null": ["data.num_samples", "data=existing"],
    "client=torchbucket-tar": ["torchbucket-tar", "tar shards", "workload=tar_shards"],
    "data.extensions.first=json": ["place of a list", "'first'"],
    "data.extensions.7=json": ["data.extensions.7=json", "out of range"],
    "hydra.sweep.dir=.": ["exists already", "never overwritten"],
    "hydra/sweeper=basic": ["hydra/sweeper=basic", "no record", "hydra/sweeper=optuna"],
    "cache_dir=/dev/null/cache": ["cache_dir=/dev/null/cache", "/dev/null is no directory"],
}


@pytest.mark.parametrize("override", MISTAKES)
def test_a_wrong_override(override: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "dataset", "repeat=0", "client=boto3", override]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1, "one message, on one line"
    assert "Traceback" not in said.err
    for words in MISTAKES[override]:
        assert words in said.err
    assert "abc" not in said.err.split("secret_key")[-1]
    assert not Path("multirun", "dataset").exists() or not list(Path("multirun", "dataset").iterdir())


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["client=boto3", "model=decode"], ["client=boto3", "whole tar shards", "torchbucket-tar"]),
        (["client=webdataset-decode", "model=vit"], ["webdataset-decode", "has decoded", "model=none"]),
    ],
)
def test_a_model_that_cannot_take_what_the_client_delivers(
    overrides: list[str], words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "dataset", "repeat=0", "data=tar_shards", *overrides]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    for word in words:
        assert word in said


def test_a_file_that_is_no_yaml_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = tmp_path / "mine" / "client"
    directory.mkdir(parents=True)
    (directory / "broken.yaml").write_text("name: [unfinished\n")
    assert main(["run", "dataset", "--config-dir", str(tmp_path / "mine"), "client=broken"]) == 2
    said = capsys.readouterr().err
    assert "broken.yaml" in said
    assert "line 2" in said
    assert said.count("\n") == 1


def test_a_setting_that_cannot_be_used_is_named_by_its_key(capsys: pytest.CaptureFixture[str]) -> None:
    there = ["target=s3", "target.bucket=there", "data=existing", "data.prefix=x", "target.endpoint=there"]
    assert main(["run", "dataset", "repeat=0", "client=boto3", *there]) == 2
    said = capsys.readouterr().err
    assert "target.endpoint must be http" in said
    assert said.count("\n") == 1
    assert not Path("multirun").exists()


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "multirun").write_text("a file, as good as read-only for root, too")
    assert main(["run", "dataset", "client=boto3", "repeat=0"]) == 1
    said = capsys.readouterr().err
    assert str(tmp_path / "multirun") in said
    assert "Traceback" not in said


VALUES = {
    "min_measured_s=0": ["min_measured_s=0", "above 0"],
    "dataloader.num_workers=-1": ["dataloader.num_workers=-1", "from 0"],
    "dataloader.start_method=thread": ["dataloader.start_method=thread", "forkserver"],
    "time_limit_s=0": ["time_limit_s=0", "above 0"],
    "data.sample_size=100M": ["data.sample_size=100M", "100MiB"],
    "data.num_samples=some": ["data.num_samples=some", "100k"],
    "data.resolution=big": ["data.resolution=big", "256x256"],
    "data.prefix=../../outside": ["data.prefix=../../outside", "beginning of a key"],
    "data.prefix=/absolute": ["data.prefix=/absolute", "beginning of a key"],
    "data.samples_per_shard=few": ["data.samples_per_shard=few", "100k"],
    "data.shard_size=1M": ["data.shard_size=1M", "1MiB"],
    "data.extensions=[txt]": ["extensions", "cls, json"],
    "client.samples=shards": ["client.samples=shards", "objects, members"],
    "data.image_format=gif": ["image_format", "jpeg"],
    "network.first_byte_s=-1": ["first_byte_s", "-1"],
    "+network.latency=1": ["latency", "first_byte_s"],
    "client._target_=NoDot": ["client._target_=NoDot", "dotted path"],
}


@pytest.mark.parametrize("override", VALUES)
def test_a_value_that_cannot_be_used_is_named(override: str) -> None:
    (point,) = points_of_scenario("dataset", "repeat=0", "client=boto3")
    key, _, text = override.removeprefix("+").partition("=")
    with pytest.raises(ConfigurationError) as refused:
        changed(point, key, yaml.safe_load(text))
    for words in VALUES[override]:
        assert words in str(refused.value)


def test_batches_beyond_the_memory_are_refused_with_the_figures(capsys: pytest.CaptureFixture[str]) -> None:
    large = ["data.num_samples=100k", "data.sample_size=1GiB", "dataloader.batch_size=10000"]
    assert main(["run", "dataset", "repeat=0", "client=boto3", *large]) == 2
    said = capsys.readouterr().err
    assert "10000 samples of 1.0 GiB" in said
    assert "of memory" in said
    assert "dataloader.batch_size" in said


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["run", "nothing"], f"the scenarios are: {', '.join(scenario_names())}"),
        (["walk"], "the commands are: run"),
        (["run", "dataset", "--config-dir", "/no/such/directory"], "not found"),
        (["run", "dataset", "--colour"], "--colour"),
    ],
)
def test_a_wrong_command(argv: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 2
    said = capsys.readouterr()
    assert words in said.err
    assert "Traceback" not in said.err


def test_a_developer_can_ask_for_the_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    from bucketbench.errors import UsageError

    monkeypatch.setenv("BUCKETBENCH_TRACEBACK", "1")
    with pytest.raises(UsageError, match="the commands are"):
        main(["walk"])


@pytest.mark.parametrize("argv", [["--help"], [], ["run", "--help"], ["--version"]])
def test_help_and_version_succeed(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 0
    assert "bucketbench" in capsys.readouterr().out
