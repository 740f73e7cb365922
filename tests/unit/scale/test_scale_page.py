"""The tables and pictures of docs/scale.md are what the commands above them make."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import pytest
import yaml
from testbed_tables import Table

from bucketbench.cli import main
from bucketbench.configuration.directory import PACKAGED
from bucketbench.cost.prices import read_prices
from bucketbench.scale.composition import composed
from bucketbench.scale.drawing import draw
from bucketbench.scale.service import Kind, ServiceLimits
from bucketbench.scale.simulation import Outcome, simulated
from bucketbench.scale.tables import ScaleTable, by_operation, memory_table, rounded, traffic_table

DOCS = Path(__file__).parents[3] / "docs"
PAGE = DOCS / "scale.md"

EPOCH = "dataset workload=resnet50 data.num_samples=100M"
LISTING = "listing names.count=10M"
SHARDED = "dcp_fsdp checkpoint=tensors checkpoint.tensors=724 checkpoint.size=257GiB"
REPLICAS = "dcp_ddp checkpoint=T0_3B"
READ_ONCE = f"{REPLICAS} client=torchbucket-once"
METADATA_ONCE = f"{SHARDED} client=torchbucket-once"
ON_CLOUD_STORAGE = SHARDED.replace("dcp_fsdp", "dcp_fsdp target=local_gs")


def traffic(outcomes: Sequence[Outcome]) -> ScaleTable:
    return traffic_table(outcomes, "USD")


TABLES: dict[str, tuple[str, str, Callable[[Sequence[Outcome]], ScaleTable]]] = {
    "an epoch of objects": (EPOCH, "epoch of objects", traffic),
    "an epoch of tar shards": (EPOCH, "epoch of tar shards of 256.0 MiB", traffic),
    "listings by each rank": (LISTING, "listing by each rank", traffic),
    "one listing and a manifest": (LISTING, "one listing, and a manifest", traffic),
    "a sharded save": (SHARDED, "save", traffic),
    "what a sharded save leaves": (SHARDED, "save", memory_table),
    "a sharded load": (SHARDED, "load", traffic),
    "the memory of a sharded load": (SHARDED, "load", memory_table),
    "a sharded load that reads the metadata once": (METADATA_ONCE, "load", traffic),
    "a load of replicas by each rank": (REPLICAS, "load", traffic),
    "a load of replicas read once": (READ_ONCE, "load", traffic),
    "a sharded save on Cloud Storage": (ON_CLOUD_STORAGE, "save", traffic),
}
PICTURES = {"scale-epoch.svg": EPOCH, "scale-checkpoint.svg": SHARDED}


@cache
def outcomes_of(command: str) -> list[Outcome]:
    scenario, *overrides = command.split()
    return list(simulated(composed(scenario, overrides)))


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.nightly) if TABLES[name][0] == ON_CLOUD_STORAGE else name for name in TABLES],
)
def test_a_table_is_what_its_command_makes(name: str) -> None:
    command, operation, make = TABLES[name]
    made = make(by_operation(outcomes_of(command))[operation])
    table = Table(
        name=name, corner=made.columns[0], rows=[row[0] for row in made.rows], columns=made.columns[1:], document=PAGE
    )
    for row in made.rows:
        for column, cell in zip(made.columns[1:], row[1:], strict=True):
            table.record(row[0], column, cell)
    table.settle()


def files_of(group: str) -> list[Path]:
    return sorted((PACKAGED / group).glob("*.yaml"), reverse=True)


def test_the_limits_are_those_of_the_files() -> None:
    found = [ServiceLimits.from_mapping(yaml.safe_load(path.read_text())) for path in files_of("service")]
    columns = ["reads a second", "writes a second", "of", "may double in", "as of"]
    table = Table(name="limits", corner="service", rows=[one.name for one in found], columns=columns, document=PAGE)
    for one in found:
        doubling = "no time that is published" if one.doubling_s is None else f"{one.doubling_s:,.0f} s"
        cells = [
            *(rounded(one.per_s[kind]) for kind in (Kind.READS, Kind.WRITES)),
            "each prefix that the service has split" if one.per_prefix else "a bucket, at first",
            doubling,
            one.as_of,
        ]
        for column, cell in zip(columns, cells, strict=True):
            table.record(one.name, column, cell)
    table.settle()


def test_the_prices_are_those_of_the_files() -> None:
    found = list(map(read_prices, files_of("prices")))
    routes = ["same_region", "other_region", "internet"]
    classes = ["write", "list", "read", "free"]
    columns = [
        *(f"1,000 `{name}`" for name in classes),
        *(f"a GiB read by `{route}`" for route in routes),
        "a GiB kept a month",
        "as of",
    ]
    table = Table(name="prices", corner="list", rows=[one.name for one in found], columns=columns, document=PAGE)
    for one in found:
        amounts = [
            *(one.per_1000[name] for name in classes),
            *(one.received_per_gib[route] for route in routes),
            one.stored_per_gib_month,
        ]
        for column, cell in zip(columns, [*map(rounded, amounts), one.as_of], strict=True):
            table.record(one.name, column, cell)
    table.settle()


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_what_its_command_draws(name: str) -> None:
    drawn = draw(outcomes_of(PICTURES[name]), "USD")
    if Table.writes:
        (DOCS / name).write_text(drawn, encoding="utf-8")
    assert (DOCS / name).read_text(encoding="utf-8") == drawn
    assert f"]({name})" in PAGE.read_text(encoding="utf-8")


def test_the_page_names_the_command_of_each_table() -> None:
    page = PAGE.read_text(encoding="utf-8")
    shown = re.findall(r"^\$ bucketbench scale (.+)$", page, re.MULTILINE)
    assert set(shown) == {command for command, _, _ in TABLES.values()}
    assert len(re.findall("<!-- table of ", page)) == len(TABLES) + 2


def test_the_examples_of_the_command_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = re.findall(r"```bash\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    for line in block.splitlines():
        program, command, *arguments = line.split()
        assert (program, command) == ("bucketbench", "scale")
        few = [
            str(tmp_path / argument) if argument.endswith(".svg") else re.sub(r"^ranks=.*", "ranks=2", argument)
            for argument in arguments
        ]
        assert main(["scale", *few]) == 0
        assert capsys.readouterr().out
    assert (tmp_path / "picture.svg").is_file()
