"""The listing scenario's configuration: every file composes, the client comes from its own group, mistakes are told."""

from __future__ import annotations

from pathlib import Path

import pytest
from composition import changed, points_of_scenario, swept_by_scenario, with_each_option

from bucketbench.cli import main
from bucketbench.configuration.directory import find_conf_directory
from bucketbench.configuration.settings import JobSettings
from bucketbench.errors import ConfigurationError
from bucketbench.scenarios.listing.settings import ListingSettings

CONF = find_conf_directory("listing")
CLIENTS = sorted(path.stem for path in (CONF / "listing" / "client").glob("*.yaml"))


def points(*overrides: str, directory: Path | None = None) -> list[JobSettings]:
    return points_of_scenario("listing", *overrides, directory=directory)


def every_client() -> list[JobSettings]:
    return with_each_option(*points("repeat=0", "client=boto3"), "client")


def test_every_client_composes_and_has_its_files_name() -> None:
    found = every_client()
    assert [point.client.name for point in found] == CLIENTS
    assert {point.client.module.rpartition(".")[0] for point in found} == {"bucketbench.clients.listing"}
    assert all(set(point.config["client"]["schemes"]) <= {"s3", "gs"} for point in found)


def test_every_network_and_target_composes() -> None:
    networks = sorted(path.stem for path in (CONF / "network").glob("*.yaml"))
    found = points("repeat=0", "client=torchbucket", f"network={','.join(networks)}")
    assert [point.network for point in found] == networks
    targets = sorted(path.stem for path in (CONF / "target").glob("*.yaml"))
    found = points("repeat=0", "client=torchbucket", "target.bucket=a-bucket", f"target={','.join(targets)}")
    assert [point.config["target"]["name"] for point in found] == targets


@pytest.mark.parametrize(("target", "scheme"), [("local", "s3"), ("local_gs", "gs")])
def test_the_default_clients_are_those_of_the_targets_scheme(target: str, scheme: str) -> None:
    found = swept_by_scenario("listing", f"target={target}", "hydra.sweeper.order_seed=null")
    clients = [point["client"] for point in found if point["repeat"] == "0"]
    assert len(clients) > 3
    assert clients[0] == "torchbucket"
    assert [(point["repeat"], point["client"]) for point in found] == [(str(r), c) for r in range(6) for c in clients]
    schemes = {point.client.name: point.config["client"]["schemes"] for point in every_client()}
    assert all(scheme in schemes[client] for client in clients)


def test_clients_are_the_fastest_key_whatever_else_is_swept() -> None:
    swept = ["client=boto3,obstore", "names.shape=hot,long", "repeat=0,1", "hydra.sweeper.order_seed=null"]
    found = swept_by_scenario("listing", *swept)
    assert [(p["repeat"], p["names.shape"], p["client"]) for p in found] == [
        (repeat, shape, client) for repeat in "01" for shape in ("hot", "long") for client in ("boto3", "obstore")
    ]


def test_the_parameters_say_what_is_listed_and_not_by_whom() -> None:
    boto3, torchbucket = points("repeat=0", "client=boto3,torchbucket", "names.count=200k", "names.max_size=0")
    assert boto3.parameters == torchbucket.parameters
    presets = {name for name in boto3.parameters if name.startswith(("target.", "network.", "faults."))}
    assert {name: value for name, value in boto3.parameters.items() if name not in presets} == {
        "target": "local", "network": "regional", "faults": "none", "tls": False, "names.count": 200_000,
        "names.shape": "numbers", "names.max_size_bytes": 0, "passes": "auto", "min_measured_s": 1.0, "warmup": True,
        "ranks": 1,
    }  # fmt: skip


DESCRIPTIONS = [("names.shape", "hot"), ("names.shape", "hex"), ("names.count", 10), ("names.max_size", 0)]


def test_each_description_of_names_has_a_prefix_of_its_own() -> None:
    (point,) = points("repeat=0", "client=boto3")
    found = [point, *(changed(point, key, value) for key, value in DESCRIPTIONS)]
    assert len({described.prefix for described in found}) == len(found)
    named = changed(point, "names.prefix", "lists/mine")
    assert isinstance(named, ListingSettings)
    assert (named.prefix, named.warmup_prefix) == ("lists/mine/", "lists/mine.warm-up/")
    cold = changed(point, "warmup", False)
    assert isinstance(cold, ListingSettings)
    assert cold.warmup_prefix is None


def test_a_users_client_needs_three_lines(tmp_path: Path) -> None:
    (tmp_path / "client").mkdir()
    (tmp_path / "client" / "mine.yaml").write_text("name: mine\n_target_: my_lister.Mine\n")
    (point,) = points("client=mine", "repeat=0", directory=tmp_path)
    assert (point.client.target, point.client.search_path) == ("my_lister.Mine", (str(tmp_path),))


MISTAKES = {
    "client=nobody": ["client=nobody", "there is no client of that name", "torchbucket-sequential"],
    "names.shape=square": ["names.shape=square", "one of numbers"],
    "nmaes.count=3": ["nmaes.count", "did you mean names.count?", "conf/listing.yaml"],
    "epochs=2": ["epochs", "no key"],
    "data=png_1mib": ["data"],
    "+client.options.token=abc": ["client.options.token", "credential"],
    "target=local_gs": ["client=boto3", "google-cloud-storage"],
}


@pytest.mark.parametrize("override", MISTAKES)
def test_a_mistake_is_one_message(
    override: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["run", "listing", "repeat=0", "client=boto3", override]) == 2
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    for words in MISTAKES[override]:
        assert words in said.err
    assert list(tmp_path.iterdir()) == []


VALUES = {
    "names.shape=square": "one of numbers",
    "names.count=0": "from 1 to 10,000,000",
    "names.count=20M": "from 1 to 10,000,000",
    "names.count=many": "100k",
    "names.max_size=1MiB": "at most 65,536 bytes",
    "names.prefix=../up": "beginning of a key",
    "passes=0": "auto",
}


@pytest.mark.parametrize("override", VALUES)
def test_a_value_that_cannot_be_used_is_named(override: str) -> None:
    (point,) = points("repeat=0", "client=boto3")
    key, _, value = override.partition("=")
    with pytest.raises(ConfigurationError) as refused:
        changed(point, key, value)
    assert override in str(refused.value)
    assert VALUES[override] in str(refused.value)


def test_names_beyond_the_memory_are_refused_with_the_figures() -> None:
    (point,) = points("repeat=0", "client=boto3", "names.count=5M")
    with pytest.raises(Exception, match=r"5,000,000 names can take 9\.8 GiB.*of memory: lower names\.count"):
        point.check_fits(memory_bytes=8 << 30, free_disk_bytes=0)
    point.check_fits(memory_bytes=64 << 30, free_disk_bytes=0)
