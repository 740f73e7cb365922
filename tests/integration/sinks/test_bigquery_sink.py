"""Runs of every scenario in a table of BigQuery, over a socket, and what is told where that fails."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from answering_server import Answer, answering
from bigquery_server import BigQueryServer, serving_bigquery
from finished_sweeps import read_results
from google.auth.credentials import AnonymousCredentials
from google.cloud import bigquery as google
from pushed_runs import canonical, run_of, written_run

from bucketbench.cli import main
from bucketbench.sinks import bigquery, bigquery_columns
from bucketbench.sinks.bigquery import BigQuerySink
from bucketbench.sinks.bigquery_columns import Column, columns
from bucketbench.sinks.document import read_run
from bucketbench.sinks.protocol import SinkError

PROJECT = "my-project"


@pytest.fixture(scope="module")
def server() -> Iterator[BigQueryServer]:
    with serving_bigquery() as serving:
        yield serving


@pytest.fixture(scope="module")
def listing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run_of("listing", tmp_path_factory.mktemp("listing"))


def sink(url: str, dataset: str, **options: Any) -> BigQuerySink:
    return BigQuerySink(**{"dataset": dataset, "project": PROJECT, "endpoint": url, "create": True, **options})


def client(url: str) -> google.Client:
    return google.Client(PROJECT, credentials=AnonymousCredentials(), client_options={"api_endpoint": url})


def tables(server: BigQueryServer, dataset: str) -> list[str]:
    return [table for place, table in server.tables if place == dataset]


def test_the_columns_hold_what_the_results_have_and_the_command_asks_for_them(
    server: BigQueryServer, listing: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    places = [f"sink.project={PROJECT}", f"sink.endpoint={server.url}", "sink.create=true", "sink.dataset=asked"]
    assert main(["push", str(listing), "sink=bigquery", *places]) == 0
    counted, told = capsys.readouterr().out.splitlines()
    results = read_results(listing)
    assert counted == f"{results['run_id']}: 2 jobs, in the BigQuery table {PROJECT}.asked.jobs ({server.url})"
    *words, question = shlex.split(told.removeprefix("get it back: "))
    assert words == ["bq", "query", f"--project_id={PROJECT}", "--use_legacy_sql=false"]
    rows = list(client(server.url).query_and_wait(question))
    for row, job in zip(rows, results["jobs"], strict=True):
        assert (row["client"], row["status"], row["reason"]) == (job["client"], job["status"], job["reason"])
        assert {f["name"]: (f["value"], f["unit"]) for f in row["figures"]} == {
            name: (figure["value"], figure["unit"]) for name, figure in job["figures"].items()
        }
        assert row["run"]["started_at"].isoformat(timespec="milliseconds") == results["started_at"]
        assert json.loads(row["parameters"]) == job["parameters"]
        assert row["host"] == job["host"]
    table = client(server.url).get_table(f"{PROJECT}.asked.jobs")
    assert (table.time_partitioning.field, table.clustering_fields) == ("run_started_at", ["scenario", "run_id"])


def test_a_run_pushed_again_is_the_same_and_one_that_changed_is_as_it_is_now(
    server: BigQueryServer, listing: Path, tmp_path: Path
) -> None:
    table, run_id = sink(server.url, "again"), read_results(listing)["run_id"]
    other = written_run(listing, tmp_path / "other", lambda results: results.update(started_at="2020-01-01T00:00:00Z"))
    partly = written_run(listing, tmp_path / "partly", lambda results: results.update(jobs=results["jobs"][:1]))
    table.push(read_run(other))
    assert table.push(read_run(partly)).jobs == 1
    assert table.push(read_run(listing)).jobs == 2, "it was resumed"
    rows = server.tables["again", "jobs"].rows
    assert table.push(read_run(listing)).jobs == 2
    assert server.tables["again", "jobs"].rows == rows
    assert table.fetch(run_id) == [read_results(other), read_results(listing)]
    table.push(read_run(partly))
    assert table.fetch(run_id) == [read_results(other), read_results(partly)]


def test_what_is_no_number_is_null_and_a_flag(server: BigQueryServer, listing: Path, tmp_path: Path) -> None:
    def spoil(results: dict[str, Any]) -> None:
        figures = results["jobs"][0]["figures"]
        for name, number in (("names_per_s", float("nan")), ("list_s", float("-inf"))):
            figures[name] = {"unit": "?", "value": number, "reason": None}

    spoilt = written_run(listing, tmp_path / "spoilt", spoil)
    table = sink(server.url, "spoilt")
    table.push(read_run(spoilt))
    figures = {one["name"]: one for one in server.tables["spoilt", "jobs"].rows[0]["figures"]}
    told = [(figures[name]["value"], figures[name]["value_not_finite"]) for name in ("names_per_s", "list_s")]
    assert told == [(None, "nan"), (None, "-inf")]
    assert canonical(table.fetch(read_results(listing)["run_id"])) == canonical([read_results(spoilt)])


def test_a_table_of_an_older_version_gets_the_columns_that_it_lacks(
    server: BigQueryServer, listing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = columns()

    def older(fields: tuple[Column, ...]) -> tuple[Column, ...]:
        """Without the last column, and without the last field of each record."""
        return tuple(
            field if not field.fields else Column(**{**_values(field), "fields": field.fields[:-1]})
            for field in fields
            if field.name != "commit"
        )

    monkeypatch.setattr(bigquery, "columns", lambda: older(whole))
    sink(server.url, "older")._ensured_table(client(server.url))
    before = client(server.url).get_table(f"{PROJECT}.older.jobs").schema
    monkeypatch.undo()
    extra = [*before, google.SchemaField("mine", "STRING", "NULLABLE")]
    made = client(server.url).get_table(f"{PROJECT}.older.jobs")
    made.schema = extra
    client(server.url).update_table(made, ["schema"])
    sink(server.url, "older", create=False).push(read_run(listing))
    after = client(server.url).get_table(f"{PROJECT}.older.jobs").schema
    assert [one.name for one in after] == [*(one.name for one in before), "mine", "commit"]
    assert len(server.tables["older", "jobs"].fields) == len(whole) + 1
    assert sink(server.url, "older").fetch(read_results(listing)["run_id"]) == [read_results(listing)]


def _values(column: Column) -> dict[str, Any]:
    return {name: getattr(column, name) for name in ("name", "type", "shape", "fields", "description")}


def test_a_column_of_another_type_is_told(server: BigQueryServer, listing: Path) -> None:
    asked = client(server.url)
    asked.create_dataset("typed")
    asked.create_table(google.Table(f"{PROJECT}.typed.jobs", schema=[google.SchemaField("figures", "STRING")]))
    with pytest.raises(
        SinkError, match="has a column figures of NULLABLE STRING, and the results need REPEATED RECORD"
    ):
        sink(server.url, "typed").push(read_run(listing))


def test_a_row_that_is_not_taken_is_told_and_leaves_nothing(
    server: BigQueryServer, listing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = read_run(listing)
    table = sink(server.url, "refusing")
    table.push(run)
    rows = list(server.tables["refusing", "jobs"].rows)

    def wrong(run: Any) -> list[dict[str, Any]]:
        first, second = bigquery_columns.rows_of(run)
        return [first, {**second, "repeat": "twice"}]

    monkeypatch.setattr(bigquery, "rows_of", wrong)
    with pytest.raises(SinkError, match=r"no row was taken, since some cannot be: .* Field: repeat; Value: twice"):
        table.push(run)
    assert server.tables["refusing", "jobs"].rows == rows
    assert tables(server, "refusing") == ["jobs"]


def test_a_load_that_the_service_cannot_do_now_is_not_blamed_on_the_rows(
    server: BigQueryServer, listing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = server._load

    def exhausted(job: dict[str, Any], data: bytes) -> dict[str, Any]:
        error = {"reason": "quotaExceeded", "message": "Your table exceeded quota for imports"}
        done = load(job, data)
        done["status"] |= {"errorResult": error, "errors": [error]}
        return done

    monkeypatch.setattr(server, "_load", exhausted)
    with pytest.raises(SinkError, match=r"no row was taken: Your table exceeded .*: push the run again later"):
        sink(server.url, "exhausted").push(read_run(listing))


def test_a_load_whose_answer_was_lost_is_found_again(
    server: BigQueryServer, listing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = server.answer
    lost: list[str] = []

    def lose_the_first(method: str, path: str, headers: Any, body: bytes) -> Any:
        told = answer(method, path, headers, body)
        if method == "PUT" and not lost:
            lost.append(path)
            raise ConnectionResetError  # the handler's thread ends, and with it the connection
        return told

    monkeypatch.setattr(server, "answer", lose_the_first)
    assert sink(server.url, "lost").push(read_run(listing)).jobs == 2
    assert len(lost) == 1


def test_a_data_set_that_is_there_is_not_made_by_those_who_may_not(server: BigQueryServer, listing: Path) -> None:
    client(server.url).create_dataset("given")
    before = len(server.asked)
    sink(server.url, "given").push(read_run(listing))
    made = [asked for asked in server.asked[before:] if asked.startswith("POST ") and asked.endswith("/datasets")]
    assert made == []


def test_a_data_set_or_table_that_is_not_there_is_told(server: BigQueryServer, listing: Path) -> None:
    with pytest.raises(SinkError, match=r"Not found: Dataset my-project:absent: add sink.create=true"):
        sink(server.url, "absent", create=False).push(read_run(listing))
    with pytest.raises(SinkError, match=r"Not found"):
        sink(server.url, "absent").fetch("listing/never")


def refusal(status: int, reason: str, message: str) -> Answer:
    errors = [{"reason": reason, "message": message, "domain": "global"}]
    return Answer(status, json.dumps({"error": {"code": status, "message": message, "errors": errors}}))


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (refusal(403, "accessDenied", "Access Denied: Dataset d"), "the credentials may not do this: .*Access Denied"),
        (
            refusal(403, "quotaExceeded", "Quota exceeded"),
            "it is throttled: .*Quota exceeded: push the run again later",
        ),
        (refusal(429, "rateLimitExceeded", "Exceeded rate"), "it cannot be reached: .*Exceeded rate"),
        (
            refusal(401, "authError", "Invalid Credentials"),
            "the credentials are of no use .*: give Application Default",
        ),
        (refusal(400, "invalid", "Invalid project"), "it was refused: .*Invalid project"),
    ],
)
def test_what_the_service_refuses_is_one_line(
    listing: Path, monkeypatch: pytest.MonkeyPatch, answer: Answer, words: str
) -> None:
    monkeypatch.setattr(bigquery, "_RETRIES_S", 0.1)
    with answering(answer) as (url, _), pytest.raises(SinkError) as raised:
        sink(url, "refused").push(read_run(listing))
    assert re.search(words, str(raised.value)), raised.value
    assert "\n" not in str(raised.value)


def test_without_credentials_or_a_network_it_is_told_what_is_missing(
    listing: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(bigquery, "_RETRIES_S", 0.1)
    with pytest.raises(SinkError, match=r"it cannot be reached: .*127\.0\.0\.1"):
        sink("http://127.0.0.1:9", "down").push(read_run(listing))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "absent.json"))
    with pytest.raises(
        SinkError, match=r"the credentials are of no use .* was not found\.\): give Application Default"
    ):
        BigQuerySink(dataset="any", project=PROJECT).push(read_run(listing))
