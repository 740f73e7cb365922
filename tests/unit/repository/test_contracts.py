"""The import contracts name every module that they are about, also those added later."""

from __future__ import annotations

import pkgutil
import tomllib
from pathlib import Path

import bucketbench

ROOT = Path(__file__).resolve().parents[3]
CONTRACTS = {
    contract["name"]: contract
    for contract in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
}
PARTS = {f"bucketbench.{module.name}" for module in pkgutil.iter_modules(bucketbench.__path__)}


def test_the_testbed_contract_forbids_every_other_part() -> None:
    contract = CONTRACTS["the testbed shares no code, hence no bug, with what it tests"]
    assert {"torchbucket", *PARTS} - {"bucketbench.testbed"} == set(contract["forbidden_modules"])


def test_the_harness_contract_covers_every_part_but_adapters_datagen_and_testbed() -> None:
    contract = CONTRACTS["the harness reaches torchbucket only from its adapters and the data generator"]
    assert PARTS - {"bucketbench.clients", "bucketbench.datagen", "bucketbench.testbed"} == set(
        contract["source_modules"]
    )


def test_statistics_know_no_other_part_but_the_errors() -> None:
    contract = CONTRACTS["statistics and records do no I/O and know no other layer"]
    others = PARTS - set(contract["source_modules"]) - {"bucketbench.errors"}
    assert others <= set(contract["forbidden_modules"])
