"""docs/results-format.md, the published JSON Schemas and the classes that write results know the same fields."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal, get_args

import pytest

from bucketbench.provenance.host import describe_host
from bucketbench.records import Figure, Operation, OperationKind, Phase, UsageSample
from bucketbench.results import SCHEMA_VERSION, schema
from bucketbench.results.job import JobResult
from bucketbench.results.record import RunRecord
from bucketbench.scenarios.verification import VerificationCounts
from bucketbench.statistics import Role

PAGE = (Path(__file__).parents[3] / "docs" / "results-format.md").read_text(encoding="utf-8")
Name = Literal["job_results", "run_results", "operation", "usage_sample"]
SECTIONS: dict[Name, str] = {
    "job_results": "job_results.json", "run_results": "run_results.json", "operation": "operations.jsonl",
    "usage_sample": "usage.jsonl",
}  # fmt: skip


def resolved(node: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    if "$ref" in node:
        return root["$defs"][node["$ref"].rpartition("/")[2]] if node["$ref"].startswith("#") else {}
    if "type" not in node:
        return next((choice for choice in node.get("oneOf", ()) if choice.get("type") == "object"), node)
    return node


def described(node: Mapping[str, Any], root: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, bool]]:
    """The fields of an object and of the objects in it, by dotted name, and whether each has a description."""
    for name, field in node["properties"].items():
        inner = resolved(field, root)
        yield f"{prefix}{name}", "description" in field or "description" in inner
        if "properties" in inner:
            yield from described(inner, root, f"{prefix}{name}.")
        of_each = inner.get("items", inner.get("additionalProperties"))
        of_each = resolved(of_each, root) if isinstance(of_each, Mapping) else {}
        if "properties" in of_each:
            yield from described(of_each, root, f"{prefix}{name}.*.")


@pytest.mark.parametrize("name", get_args(Name))
def test_every_field_has_a_line_and_every_line_a_field(name: Name) -> None:
    (section,) = re.findall(rf"^## {re.escape(SECTIONS[name])}\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S)
    table = re.search(r"^\| field \| meaning \|\n(.*?)(?=^(?!\|)|\Z)", section, re.M | re.S)
    assert table is not None
    cells = [line.split(" | ")[0] for line in table[1].splitlines()[1:]]
    named = [field for cell in cells for field in re.findall(r"`([^`]+)`", cell)]
    assert sorted(named) == sorted(path for path, _ in described(schema(name), schema(name)))


@pytest.mark.parametrize("name", get_args(Name))
def test_every_field_of_a_schema_has_a_description(name: Name) -> None:
    assert [path for path, is_described in described(schema(name), schema(name)) if not is_described] == []


def properties(name: Name, *path: str) -> Mapping[str, Any]:
    root = schema(name)
    node: Mapping[str, Any] = root
    for step in path:
        node = resolved(node["properties"][step], root)
    return node["properties"]


def test_the_schemas_have_the_fields_of_the_classes(tmp_path: Path) -> None:
    assert set(properties("job_results")) == set(JobResult.__struct_fields__)
    run = RunRecord(directory=tmp_path, scenario="dataset", command=(), jobs_planned=1).results(ended=True)
    assert set(properties("run_results")) == set(run)
    assert set(properties("operation")) == {field.name for field in fields(Operation)}
    assert set(properties("usage_sample")) == {field.name for field in fields(UsageSample)}
    assert set(properties("job_results", "verification")) == {field.name for field in fields(VerificationCounts)}
    assert set(properties("job_results", "host")) == set(describe_host())
    figure = schema("job_results")["$defs"]["figure"]["properties"]
    assert set(figure) == {field.name for field in fields(Figure)}


def test_the_schemas_have_the_values_of_the_classes() -> None:
    assert properties("operation")["kind"]["enum"] == list(OperationKind)
    assert properties("operation")["phase"]["enum"] == list(Phase)
    assert set(properties("job_results")["role"]["enum"]) == set(Role)
    for name in ("job_results", "run_results"):
        assert properties(name)["schema_version"]["const"] == SCHEMA_VERSION


def test_a_file_of_each_past_version_is_kept() -> None:
    kept = {path.stem for path in (Path(__file__).parents[1] / "results" / "samples").glob("version_*.json")}
    assert kept == {f"version_{number}" for number in range(1, SCHEMA_VERSION)}
