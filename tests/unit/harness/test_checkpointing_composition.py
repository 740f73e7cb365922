"""The configuration of checkpoints: every file composes, sizes are refused with the figures, mistakes are told."""

from __future__ import annotations

from pathlib import Path

import pytest
from composition import points_of_scenario, with_each_option

from bucketbench.checkpointing.settings import CheckpointingSettings
from bucketbench.cli import main
from bucketbench.configuration.directory import find_conf_directory
from bucketbench.errors import PreflightError

CONF = find_conf_directory("pytorch_checkpointing")
CLIENTS = sorted(path.stem for path in (CONF / "pytorch_checkpointing" / "client").glob("*.yaml"))


def points(*overrides: str) -> list[CheckpointingSettings]:
    found = points_of_scenario("pytorch_checkpointing", *overrides)
    assert all(isinstance(point, CheckpointingSettings) for point in found)
    return found  # type: ignore[return-value]  # as has been asserted


def test_every_client_composes_and_has_its_files_name() -> None:
    found = with_each_option(*points("repeat=0", "client=disk"), "client")
    assert [point.client.name for point in found] == CLIENTS
    assert {point.client.module.rpartition(".")[0] for point in found} == {"bucketbench.clients.checkpoint"}


@pytest.mark.parametrize("composed", [False, pytest.param(True, marks=pytest.mark.nightly)])
def test_every_checkpoint_composes_with_its_published_size(composed: bool) -> None:
    names = sorted(path.stem for path in (CONF / "checkpoint").glob("*.yaml"))
    if composed:
        found = points_of_scenario("pytorch_checkpointing", "repeat=0", "client=disk", f"checkpoint={','.join(names)}")
    else:
        found = with_each_option(*points("repeat=0", "client=disk"), "checkpoint")
    sizes = {name: point.parameters["checkpoint.size_bytes"] for name, point in zip(names, found, strict=True)}
    assert sizes == {
        "T0_3B": 4 * 2_849_757_184, "T0pp": 4 * 11_135_332_352, "clip-vit": 4 * 427_616_513, "small": 4 << 20,
        "llama-1b": 4 * 1_100_048_384, "llama-7b": 4 * 6_738_415_616, "llama-13b": 4 * 13_015_864_320,
        "llama-34b": 4 * 33_743_970_304, "llama-70b": 4 * 68_976_648_192,
        "tensors": 1 << 30, "transformer": 79_189_112, "vit-base": 4 * 86_389_248, "whisper": 4 * 1_543_490_560,
    }  # fmt: skip


@pytest.mark.parametrize(("target", "scheme"), [("local", "s3"), ("local_gs", "gs")])
def test_the_default_clients_are_those_of_the_targets_scheme(target: str, scheme: str) -> None:
    found = points(f"target={target}", "repeat=0")
    clients = [point.client.name for point in found]
    assert clients[0] == "torchbucket"
    assert {"raw", "disk"} < set(clients)
    assert all(scheme in point.config["client"]["schemes"] for point in found)


def test_the_parameters_say_what_is_saved_and_not_by_whom() -> None:
    boto3, torchbucket = points("repeat=0", "client=boto3,torchbucket", "checkpoint=tensors", "checkpoint.tensors=2k")
    assert boto3.parameters == torchbucket.parameters
    presets = {name for name in boto3.parameters if name.startswith(("target.", "network.", "faults."))}
    assert {name: value for name, value in boto3.parameters.items() if name not in presets} == {
        "target": "local", "network": "regional", "faults": "none", "tls": False, "checkpoint.model": "tensors",
        "checkpoint.layers": None, "checkpoint.tensors": 2000, "checkpoint.size_bytes": 1 << 30, "checkpoint.seed": 0,
        "steps": "auto", "min_measured_s": 1.0, "save_only_latest": False, "clear_kernel_cache": False,
        "disable_multipart": False, "warmup": True, "ranks": 1,
    }  # fmt: skip


def test_the_testbed_spares_itself_the_md5_and_a_real_service_decides_itself() -> None:
    local, real = points("repeat=0", "client=boto3", "target=local,s3", "target.bucket=a-bucket")
    assert local.config["target"]["opaque_etags"] is True
    assert real.config["target"]["opaque_etags"] is False


def test_a_state_beyond_the_memory_is_refused_with_the_figures() -> None:
    (point,) = points("repeat=0", "client=disk", "checkpoint.layers=10000")
    words = r"Transformer with 10,000 layers \(24\.1 GiB\) can take 144\.5 GiB, 6 times .* 64\.0 GiB of memory: choose"
    with pytest.raises(PreflightError, match=words):
        point.check_fits(memory_bytes=64 << 30, free_disk_bytes=0)
    point.check_fits(memory_bytes=256 << 30, free_disk_bytes=0)


def test_the_kernels_cache_is_cleared_where_that_is_permitted_and_refused_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (point,) = points("repeat=0", "client=disk", "clear_kernel_cache=true")
    switch = tmp_path / "drop_caches"
    monkeypatch.setattr("bucketbench.scenarios.kernel_cache._DROP_CACHES", switch)
    with pytest.raises(PreflightError, match=r"clear_kernel_cache=true cannot be used: .* root's rights"):
        point.check_fits(memory_bytes=256 << 30, free_disk_bytes=0)
    switch.touch()
    point.check_fits(memory_bytes=256 << 30, free_disk_bytes=0)


MISTAKES = {
    "checkpoint=gpt": ["checkpoint=gpt", "vit-base"],
    "checkpoint.layers=0": ["checkpoint.layers=0", "from 1 to 100000"],
    "checkpoint.layers=null": ["checkpoint.layers must be set for checkpoint.model=transformer"],
    "checkpoint.tensors=3": ["checkpoint.tensors=3 has no effect on checkpoint.model=transformer"],
    "checkpoint.model=gpt": ["checkpoint.model=gpt", "one of transformer, vit-base"],
    "steps=0": ["steps=0", "auto"],
    "prefix=../up": ["prefix=../up", "beginning of a key"],
    "ranks=2": ["ranks=2", "leave ranks at 1"],
}


@pytest.mark.parametrize("override", MISTAKES)
def test_a_mistake_is_one_message(
    override: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["run", "pytorch_checkpointing", "repeat=0", "client=boto3", override]) == 2
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    for words in MISTAKES[override]:
        assert words in said.err
    assert list(tmp_path.iterdir()) == []


def test_more_tensors_than_numbers_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    mistake = ["checkpoint=tensors", "checkpoint.size=1KiB", "checkpoint.tensors=300"]
    assert main(["run", "pytorch_checkpointing", "repeat=0", "client=boto3", *mistake]) == 2
    assert "from 1 to 256" in capsys.readouterr().err
