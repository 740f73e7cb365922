"""The page on clients names every configuration, and no other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[3]


def test_the_table_and_the_configurations_agree() -> None:
    page = (ROOT / "docs" / "clients.md").read_text()
    table = page[: page.index("## What was chosen")]
    rows = dict(re.findall(r"^\| `([\w-]+)` \| (map|iterable)\b", table, flags=re.MULTILINE))
    configured = {path.stem for path in (ROOT / "conf" / "dataset" / "client").glob("*.yaml")}
    assert set(rows) == configured
    for name in configured:
        role = yaml.safe_load((ROOT / "conf" / "dataset" / "client" / f"{name}.yaml").read_text())["role"]
        row = next(line for line in table.splitlines() if line.startswith(f"| `{name}` "))
        told = {"reference": "(reference)", "ceiling": "(bare loop)"}
        assert [word for word in told.values() if word in row] == ([told[role]] if role in told else []), name


@pytest.mark.parametrize(
    ("scenario", "begin", "end"),
    [
        ("listing", "## Clients of the listing scenario", "## Clients of checkpoints"),
        ("pytorch_checkpointing", "## Clients of checkpoints", "### Clients of Lightning"),
        ("lightning_checkpointing", "### Clients of Lightning", "### Clients of sharded trainings"),
        ("lightning_fsdp", "### Clients of sharded trainings", "## Models"),
    ],
)
def test_the_table_of_a_scenarios_clients_and_the_configurations_agree(scenario: str, begin: str, end: str) -> None:
    page = (ROOT / "docs" / "clients.md").read_text()
    table = page[page.index(begin) : page.index(end)]
    rows = dict(re.findall(r"^\| `([\w-]+)` \| ([\w, ]+) \|", table, flags=re.MULTILINE))
    configured = {
        path.stem: yaml.safe_load(path.read_text()) for path in (ROOT / "conf" / scenario / "client").glob("*")
    }
    assert rows == {name: ", ".join(fields["schemes"]) for name, fields in configured.items()}
