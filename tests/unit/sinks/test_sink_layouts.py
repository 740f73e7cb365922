"""Runs as items and as rows, and back: exactly, whatever is in them, and within the services' limits."""

from __future__ import annotations

import json
import math
import random
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_runs import STARTED_AT, job, records_of, run_results, write_run

from bucketbench.results import schema
from bucketbench.sinks.bigquery_columns import Column, Shape, columns, results_in, rows_of
from bucketbench.sinks.document import JobDocument, RunDocument, marked, read_run
from bucketbench.sinks.dynamodb_items import fields_of, item_bytes, items_of_job, items_of_run, joined

ITEM_LIMIT_BYTES = 400 * 1024

names = st.text(min_size=1).filter(lambda name: name not in ("run_id", "part", "kind", "chunks", "run"))
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)


def document(*jobs: dict[str, Any]) -> RunDocument:
    return RunDocument(
        run_id="dataset/now",
        started_at=STARTED_AT,
        fields=marked({name: value for name, value in run_results().items() if name != "jobs"}),
        jobs=tuple(
            JobDocument(number=number, results=marked(found), directory=None) for number, found in enumerate(jobs)
        ),
    )


def from_items(items: list[dict[str, Any]]) -> dict[str, Any]:
    *chunks, item = items
    _, content, counts = fields_of(item)
    spilled = [chunk for chunk in chunks if "/spilled/" in chunk["part"]["S"]]
    assert counts["spilled"] == len(spilled)
    return {**content, **joined(spilled)}


def as_text(value: Any) -> str:
    """JSON in which 1 and 1.0 are the same, as they are to a table's numbers."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(k)}:{as_text(v)}" for k, v in sorted(value.items())) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(as_text, value)) + "]"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return json.dumps(value)


@given(st.dictionaries(names, values, max_size=4))
def test_any_result_is_the_same_in_items_and_out_of_them(results: dict[str, Any]) -> None:
    run = document(results)
    found = from_items(list(items_of_job(run, run.jobs[0], raw_records=True)))
    told = run.jobs[0].results
    assert as_text(found) == as_text(told)


@pytest.mark.parametrize("number", [1e23, -1e22, 5e-324, 1.7e308, 10**40, 2**63, 0.1, -0.0, 1e-130, 9.9e125, 3.0])
def test_a_number_comes_back_however_the_service_writes_it(number: float) -> None:
    run = document({"figures": {"a": {"value": number}}, "reason": None})
    items = list(items_of_job(run, run.jobs[0], raw_records=False))
    assert "figures" in items[-1], "it can be asked for"
    (sent,) = items[-1]["figures"]["M"]["a"]["M"]["value"].items()
    if sent[0] == "N":
        items[-1]["figures"]["M"]["a"]["M"]["value"] = {"N": format(Decimal(sent[1]).normalize(), "f")}
    assert from_items(items)["figures"]["a"]["value"] == number


def test_what_is_nested_deeper_than_the_service_takes_is_moved_aside() -> None:
    deep: dict[str, Any] = {}
    for _ in range(40):
        deep = {"a": [deep]}
    run = document({"config": deep, "errors": 1})
    items = list(items_of_job(run, run.jobs[0], raw_records=False))
    assert "config" not in items[-1]
    assert from_items(items) == {"config": deep, "errors": 1}


@pytest.mark.parametrize(
    ("number", "sent"),
    [
        (0.1, {"N": "0.1"}),
        (110.74561437959771, {"N": "110.74561437959771"}),
        (1e-07, {"N": "1E-7"}),
        (2**63, {"N": "9223372036854775808"}),
        (-0.0, {"N": "-0.0"}),
        (True, {"BOOL": True}),
        (5e-324, {"S": "5E-324"}),
        (10**40, {"S": "1" + "0" * 40}),
    ],
)
def test_numbers_are_sent_as_they_are_written(number: float, sent: dict[str, Any]) -> None:
    run = document({"x": number})
    *_, item = items_of_job(run, run.jobs[0], raw_records=False)
    assert item["x"] == sent


def test_no_item_is_larger_than_the_service_takes(tmp_path: Path) -> None:
    noise = random.Random(0)
    large = {"notes": [noise.randbytes(500).hex() for _ in range(1500)], "errors": 0}
    found = job(0, verification=large, reason="é" * 150_000)
    directory = write_run(tmp_path / "run", run_results(found))
    (directory / "0" / "operations.jsonl").write_text(noise.randbytes(600_000).hex())
    run = read_run(directory)
    items = list(items_of_job(run, run.jobs[0], raw_records=True))
    assert max(map(item_bytes, items)) < ITEM_LIMIT_BYTES
    assert from_items(items) == found
    item = items[-1]
    assert "verification" not in item
    assert item["figures"]["M"]["throughput_mibs"]["M"]["value"] == {"N": "110.74561437959771"}, "it is asked for most"
    records = [item for item in items if "/records/" in item["part"]["S"]]
    assert len(records) > 1
    assert joined(records) == records_of(run.jobs[0])
    assert items == list(items_of_job(run, run.jobs[0], raw_records=True)), "a run pushed again is the same bytes"


def test_a_runs_own_item_tells_how_many_jobs_there_are() -> None:
    run = document(job(0), job(1), job(2))
    (item,) = items_of_run(run)
    kind, content, _ = fields_of(item)
    assert (kind, content.pop("jobs")) == ("run", 3)
    assert {"run_id": run_results()["run_id"], **content} == run.fields


@given(st.dictionaries(names, values, max_size=3), st.sampled_from(sorted(job(0))), values)
def test_any_result_is_the_same_in_rows_and_out_of_them(unknown: dict[str, Any], field: str, odd: Any) -> None:
    results = run_results({**job(0), field: odd, **unknown}, {"client": "of long ago"})
    run = document(*results["jobs"])
    rows = json.loads(json.dumps(rows_of(run), allow_nan=False))
    expected = [json.dumps(marked(found), sort_keys=True) for found in results["jobs"]]
    assert [json.dumps(marked(found), sort_keys=True) for found in results_in(rows)["jobs"]] == expected


def test_columns_hold_what_a_result_has(tmp_path: Path) -> None:
    odd = {"unit": "s", "value": math.inf, "reason": None}
    run = read_run(write_run(tmp_path / "run", run_results(job(0), job(1, figures={"a": odd}, status="failed"))))
    first, second = rows_of(run)
    assert first["other"] is None, "all of it has columns"
    assert first["figures"][0] == {
        "name": "throughput_mibs",
        "unit": "MiB/s",
        "value": 110.74561437959771,
        "value_not_finite": None,
        "reason": None,
    }
    assert second["figures"] == [{"name": "a", "unit": "s", "value": None, "value_not_finite": "inf", "reason": None}]
    assert (first["run_id"], first["run"]["run_id"]) == (run.run_id, run.run_id)
    assert json.loads(first["parameters"])["dataloader.num_workers"] == 2


@pytest.mark.parametrize("value", [2**53 + 1, 10**400, -(10**400)])
def test_a_number_that_no_float_is_does_not_refuse_the_row(value: int) -> None:
    results = job(0, figures={"a": {"unit": "B", "value": value, "reason": None}})
    (row,) = rows_of(document(results))
    assert row["figures"][0]["value"] is None
    assert results_in([json.loads(json.dumps(row))])["jobs"][0]["figures"]["a"]["value"] == value


def test_a_time_before_the_first_year_is_text() -> None:
    run = document(job(0, started_at="0001-01-01T00:00:00+14:00"))
    assert results_in(rows_of(run))["jobs"][0]["started_at"] == "0001-01-01T00:00:00+14:00"


def test_every_field_of_the_schemas_has_a_column() -> None:
    def names_of(fields: tuple[Column, ...]) -> set[str]:
        return {field.name for field in fields}

    known = columns()
    (run,) = [column for column in known if column.name == "run"]
    assert names_of(known) == set(schema("job_results")["properties"]) | {"run_id", "run_started_at", "run", "other"}
    assert names_of(run.fields) == set(schema("run_results")["properties"]) - {"jobs"}
    text = {column.name for column in known if column.shape is Shape.TEXT}
    assert text == {"client_options", "parameters", "config", "other"}, "the others have columns of their own"

    def check(fields: tuple[Column, ...]) -> None:
        assert len({field.name.lower() for field in fields}) == len(fields)
        for field in fields:
            assert re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", field.name)
            assert (field.type == "RECORD") == bool(field.fields)
            check(field.fields)

    check(known)
