"""A run as rows of BigQuery: one for each job, in nested columns that follow the JSON Schemas of the result files.

A field that the schemas add becomes a column by itself. What does not come back out of its column as it went in, such
as a field that is in no schema, is in the column ``other`` as JSON as well: nothing of a result is lost.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import cache
from typing import Any, Final

from bucketbench.results.files import schema
from bucketbench.sinks.document import NOT_FINITE, RunDocument, results_of

__all__ = ["RUN_ID", "RUN_STARTED_AT", "Column", "Shape", "columns", "results_in", "rows_of"]

RUN_ID: Final = "run_id"
RUN_STARTED_AT: Final = "run_started_at"
"""With ``RUN_ID``, what the rows of one run have in common with no other."""

_RUN, _OTHER, _NUMBER, _NAME, _VALUE = "run", "other", "number", "name", "value"
_JOBS: Final = "jobs"
_ABSENT, _EXACT = "absent", "exact"
"""In ``other``: the fields that a result does not have, and those that no column has as they are."""


class Shape(StrEnum):
    """How a JSON value is laid out in a column."""

    SCALAR = "scalar"
    RECORD = "record"  # an object of known fields
    NAMED = "named"  # an object of any names: a list of records with a name
    LIST = "list"  # of texts
    TEXT = "text"  # any other value, as JSON


@dataclass(frozen=True, kw_only=True, slots=True)
class Column:
    """A column, or a field of one.

    Args:
        name: its name.
        type: BigQuery's name of its type, in legacy SQL's words as the API uses them.
        shape: how a JSON value is laid out in it.
        fields: those of a record.
        description: what the schema says of it.
    """

    name: str
    type: str
    shape: Shape
    fields: tuple[Column, ...] = ()
    description: str | None = None

    @property
    def mode(self) -> str:
        """``NULLABLE`` or ``REPEATED``."""
        return "REPEATED" if self.shape in (Shape.NAMED, Shape.LIST) else "NULLABLE"


@cache
def columns() -> tuple[Column, ...]:
    """The columns of the table."""
    run = tuple(column for column in _columns(schema("run_results")) if column.name != _JOBS)
    return (
        Column(name=RUN_ID, type="STRING", shape=Shape.SCALAR, description="SCENARIO/DIRECTORY"),
        Column(name=RUN_STARTED_AT, type="TIMESTAMP", shape=Shape.SCALAR, description="when the run began"),
        *_columns(schema("job_results")),
        Column(name=_RUN, type="RECORD", shape=Shape.RECORD, fields=run, description="run_results.json but its jobs"),
        Column(name=_OTHER, type="STRING", shape=Shape.TEXT, description="what is in no other column, as JSON"),
    )


def rows_of(run: RunDocument) -> list[dict[str, Any]]:
    """The rows of a run, as JSON values for a load job."""
    return [_row(run, {**job.results, _RUN: dict(run.fields)}, number=job.number) for job in run.jobs]


def results_in(rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The ``run_results.json`` of which the rows of one run were made, its jobs in the order of the rows.

    Args:
        rows: as BigQuery's client gives them.
    """
    fields: dict[str, Any] = {}
    jobs: dict[int, dict[str, Any]] = {}
    for place, row in enumerate(rows):
        other = json.loads(row[_OTHER]) if row[_OTHER] is not None else {_ABSENT: [], _EXACT: {}}
        kept = {
            column.name: _read(column, row[column.name]) for column in _known() if column.name not in other[_ABSENT]
        }
        job = {**kept, **other[_EXACT]}
        fields = job.pop(_RUN)
        jobs[place] = job
    return results_of(fields, jobs)


def _known() -> list[Column]:
    """The columns that hold fields of results."""
    return [column for column in columns() if column.name not in (RUN_ID, RUN_STARTED_AT, _OTHER)]


def _row(run: RunDocument, results: Mapping[str, Any], *, number: int) -> dict[str, Any]:
    laid_out = {column.name: _laid_out(column, results[column.name]) for column in _known() if column.name in results}
    laid_out[_NUMBER] = number  # Rows are ordered by it, and results of version 1 have none.
    read = {column.name: _read(column, laid_out[column.name]) for column in _known() if column.name in results}
    exact = {name: value for name, value in results.items() if name not in read or read[name] != value}
    absent = [column.name for column in _known() if column.name not in results]
    other = json.dumps({_ABSENT: absent, _EXACT: exact}) if absent or exact else None
    return {RUN_ID: run.run_id, RUN_STARTED_AT: run.started_at, **laid_out, _OTHER: other}


def _laid_out(column: Column, value: Any) -> Any:
    """A value as a load job takes it; null where it does not fit."""
    if column.shape is Shape.TEXT:
        return json.dumps(value)
    if column.shape is Shape.LIST:
        return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []
    if column.shape is Shape.NAMED:
        named = value.items() if isinstance(value, Mapping) else ()
        return [{_NAME: name, **_fields(column.fields[1:], item)} for name, item in named]
    if column.shape is Shape.RECORD:
        return _fields(column.fields, value) if isinstance(value, Mapping) else None
    return value if _FITS[column.type](value) else None


def _fields(fields: tuple[Column, ...], value: Any) -> dict[str, Any]:
    """The fields of a record; a value that is no object has the field of its own name."""
    given = value if isinstance(value, Mapping) else {_VALUE: value}
    return {field.name: _laid_out(field, given.get(field.name)) for field in fields}


def _read(column: Column, value: Any) -> Any:
    """The inverse of ``_laid_out``, of what was laid out or of what the client gives."""
    if column.shape is Shape.NAMED:
        plain = [field.name for field in column.fields] == [_NAME, _VALUE]
        read = [(record[_NAME], _read_fields(column.fields[1:], record)) for record in value or ()]
        return {name: fields[_VALUE] if plain else fields for name, fields in read}
    if column.shape is Shape.LIST:
        return list(value or ())
    if value is None:
        return None
    if column.shape is Shape.RECORD:
        return _read_fields(column.fields, value)
    if column.shape is Shape.TEXT:
        return json.loads(value)
    return _time(value) if column.type == "TIMESTAMP" else value


def _read_fields(fields: tuple[Column, ...], record: Mapping[str, Any]) -> dict[str, Any]:
    read = {field.name: _read(field, record.get(field.name)) for field in fields}
    return {name: value for name, value in read.items() if value is not None or not name.endswith(NOT_FINITE)}


def _time(value: str | datetime) -> str:
    """A time as results have it."""
    moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    return moment.astimezone(UTC).isoformat(timespec="milliseconds")


def _is_time(value: Any) -> bool:
    try:
        return isinstance(value, str) and datetime.fromisoformat(value).tzinfo is not None and bool(_time(value))
    except (ValueError, OverflowError):  # of the year 0, by the zone that it is told in
        return False


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_float(value: Any) -> bool:
    """Whether a column of floats gives the number back; a large whole number may be between two of them."""
    try:
        return _is_number(value) and float(value) == value
    except OverflowError:
        return False


_FITS: Final[Mapping[str, Callable[[Any], bool]]] = {
    "STRING": lambda value: isinstance(value, str),
    "INTEGER": lambda value: _is_number(value) and isinstance(value, int) and -(2**63) <= value < 2**63,
    "FLOAT": _is_float,
    "BOOLEAN": lambda value: isinstance(value, bool),
    "TIMESTAMP": _is_time,
}


def _columns(document: Mapping[str, Any], *, root: Mapping[str, Any] | None = None) -> tuple[Column, ...]:
    """The columns of an object's fields."""
    found: list[Column] = []
    for name, node in document["properties"].items():
        if name == _JOBS:
            continue  # a row each
        column = _column(name, node, root=document if root is None else root)
        found.append(column)
        if column.type == "FLOAT":
            told = f"nan, inf or -inf, where {name} is none of the numbers"
            found.append(Column(name=name + NOT_FINITE, type="STRING", shape=Shape.SCALAR, description=told))
    return tuple(found)


def _column(name: str, node: Mapping[str, Any], *, root: Mapping[str, Any]) -> Column:
    description = node.get("description")
    node, root = _resolved(node, root)
    kind = node.get("type") if isinstance(node.get("type"), str) else _type_beside_null(node)
    if kind == "object" and "properties" in node:
        fields = _columns(node, root=root)
        return Column(name=name, type="RECORD", shape=Shape.RECORD, fields=fields, description=description)
    if kind == "object" and isinstance(node.get("additionalProperties"), Mapping):
        value = _column(_VALUE, node["additionalProperties"], root=root)
        named = Column(name=_NAME, type="STRING", shape=Shape.SCALAR)
        fields = (named, *(value.fields if value.shape is Shape.RECORD else (value,)))
        return Column(name=name, type="RECORD", shape=Shape.NAMED, fields=fields, description=description)
    if kind == "array" and node.get("items") == {"type": "string"}:
        return Column(name=name, type="STRING", shape=Shape.LIST, description=description)
    if kind == "string" and node.get("format") == "date-time":
        return Column(name=name, type="TIMESTAMP", shape=Shape.SCALAR, description=description)
    if kind in _TYPES:
        return Column(name=name, type=_TYPES[kind], shape=Shape.SCALAR, description=description)
    return Column(name=name, type="STRING", shape=Shape.TEXT, description=description)


_TYPES: Final = {"string": "STRING", "integer": "INTEGER", "number": "FLOAT", "boolean": "BOOLEAN"}


def _resolved(node: Mapping[str, Any], root: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """What a node refers to, of several alternatives the one that is not null, and the document that it is in."""
    if "$ref" in node:
        document, _, path = node["$ref"].partition("#/$defs/")
        root = schema("job_results") if document else root
        return _resolved(root["$defs"][path], root)
    if "type" not in node and "oneOf" in node:
        (choice,) = (choice for choice in node["oneOf"] if choice.get("type") != "null")
        return _resolved(choice, root)
    return node, root


def _type_beside_null(node: Mapping[str, Any]) -> str | None:
    kinds = [kind for kind in node.get("type", ()) if kind != "null"]
    if not kinds:
        values = node.get("enum", [node.get("const")])
        return "string" if all(isinstance(value, str) for value in values) else "integer"
    return kinds[0] if len(kinds) == 1 else None
