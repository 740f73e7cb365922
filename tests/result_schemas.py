"""Holds what a run has left against the published JSON Schemas."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from bucketbench.results import schema

__all__ = ["NAMES", "validate", "validate_run"]

NAMES = ("job_results", "run_results", "operation", "usage_sample")


@cache
def _validator(name: Any) -> Draft202012Validator:
    parts = {f"{name}.schema.json": DRAFT202012.create_resource(schema(name)) for name in NAMES}
    registry: Registry[Any] = Registry().with_resources(parts.items())
    return Draft202012Validator(schema(name), registry=registry)


def validate(name: str, value: Any) -> None:
    """Raise where a value is not as the schema of that name says."""
    _validator(name).validate(value)


def validate_run(directory: Path) -> None:
    """Raise where a file of results or a line of raw records below a run's directory is not as its schema says."""
    validate("run_results", json.loads((directory / "run_results.json").read_bytes()))
    for path in directory.rglob("job_results.json"):
        validate("job_results", json.loads(path.read_bytes()))
    for name, file in (("operation", "operations.jsonl"), ("usage_sample", "usage.jsonl")):
        lines = [line for path in directory.rglob(file) for line in path.read_text().splitlines()]
        assert lines, f"no {file} in {directory}"
        for line in lines:
            validate(name, json.loads(line))
