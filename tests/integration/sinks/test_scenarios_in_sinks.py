"""A sweep of each scenario, pushed when it is over and again by hand, and read back equal."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from bigquery_server import BigQueryServer, serving_bigquery
from finished_sweeps import read_results
from pushed_runs import SCENARIOS, run_of

from bucketbench.cli import main
from bucketbench.sinks.bigquery import BigQuerySink
from bucketbench.sinks.dynamodb import DynamoDBSink

REGION, PROJECT = "eu-central-1", "my-project"
AT_NIGHT = {"lightning_checkpointing", "dcp_ddp", "dcp_fsdp"}


@pytest.fixture(scope="module")
def bigquery() -> Iterator[BigQueryServer]:
    with serving_bigquery() as serving:
        yield serving


def records_of(directory: Path) -> dict[str, str]:
    return {
        path.relative_to(directory).as_posix(): path.read_text()
        for pattern in ("operations.jsonl", "usage.jsonl")
        for path in directory.rglob(pattern)
    }


# One scenario of distributed checkpoints runs on each commit, and one of others: what their jobs leave is the same.
@pytest.mark.parametrize(
    "scenario",
    [pytest.param(name, marks=pytest.mark.nightly if name in AT_NIGHT else ()) for name in SCENARIOS],
)
def test_a_sweep_of_each_scenario_is_pushed_to_both_sinks_and_comes_back_equal(
    endpoint: str, bigquery: BigQueryServer, tmp_path: Path, scenario: str
) -> None:
    places = [f"sink.region={REGION}", f"sink.endpoint={endpoint}", "sink.create=true"]
    directory = run_of(scenario, tmp_path, "sink=dynamodb", "sink.table=runs", *places)
    results = read_results(directory)
    run_id, started_at = results["run_id"], results["started_at"]
    assert results["ended_at"] is not None
    dynamodb = DynamoDBSink(table="runs", region=REGION, endpoint=endpoint)
    assert [run for run in dynamodb.fetch(run_id) if run["started_at"] == started_at] == [results]
    for job in results["jobs"]:
        records = dynamodb.fetch_records(run_id, started_at=started_at, number=job["number"])
        assert records == records_of(directory / str(job["number"]))
        assert bool(records) == (job["status"] == "ok")

    places = [f"sink.project={PROJECT}", f"sink.endpoint={bigquery.url}", "sink.create=true"]
    assert main(["push", str(directory), "sink=bigquery", "sink.dataset=runs", *places]) == 0
    found = BigQuerySink(dataset="runs", project=PROJECT, endpoint=bigquery.url).fetch(run_id)
    assert [run for run in found if run["started_at"] == started_at] == [results]
    assert [table for _, table in bigquery.tables] == ["jobs"], "the rows' own table is removed"
