"""The configuration of the scenario of Lightning's checkpoints: every file composes, the defaults fit the target."""

from __future__ import annotations

import pytest
from composition import points_of_scenario, with_each_option

from bucketbench.components import build
from bucketbench.configuration.directory import find_conf_directory
from bucketbench.configuration.settings import JobSettings

CONF = find_conf_directory("lightning_checkpointing")
CLIENTS = sorted(path.stem for path in (CONF / "lightning_checkpointing" / "client").glob("*.yaml"))


def points(*overrides: str) -> list[JobSettings]:
    return points_of_scenario("lightning_checkpointing", *overrides)


def test_every_client_composes_and_has_its_files_name() -> None:
    found = with_each_option(*points("repeat=0", "client=torchbucket"), "client")
    assert [point.client.name for point in found] == CLIENTS
    assert {point.client.module.rpartition(".")[0] for point in found} == {"bucketbench.clients.lightning"}
    for point in found:
        assert hasattr(build(point.client), "checkpoint_io")


@pytest.mark.parametrize(("target", "scheme"), [("local", "s3"), ("local_gs", "gs")])
def test_the_default_clients_are_those_of_the_targets_scheme(target: str, scheme: str) -> None:
    found = points(f"target={target}", "repeat=0")
    clients = [point.client.name for point in found]
    assert clients[:2] == ["torchbucket", "torchbucket-async"]
    assert any(name.startswith("default-") for name in clients)
    assert all(scheme in point.config["client"]["schemes"] for point in found)


def test_the_model_is_of_the_size_of_the_published_figures() -> None:
    (found,) = points("repeat=0", "client=torchbucket")
    assert found.parameters["checkpoint.model"] == "transformer"
    assert found.parameters["checkpoint.layers"] == 10
    assert found.parameters["checkpoint.size_bytes"] // 2**20 == 75
