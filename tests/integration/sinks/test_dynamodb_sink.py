"""Runs of every scenario in a table of DynamoDB, served by moto over a socket, and what is told where that fails."""

from __future__ import annotations

import itertools
import json
import re
import shlex
from pathlib import Path
from typing import Any

import boto3
import pytest
from answering_server import Answer, answering
from boto3.dynamodb.types import TypeDeserializer
from finished_sweeps import read_results
from pushed_runs import run_of, written_run

from bucketbench.cli import main
from bucketbench.sinks import dynamodb
from bucketbench.sinks.document import read_run
from bucketbench.sinks.dynamodb import DynamoDBSink
from bucketbench.sinks.protocol import SinkError

REGION = "eu-central-1"
PAGE = Path(__file__).parents[3] / "docs" / "sinks.md"


@pytest.fixture(scope="module")
def listing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run_of("listing", tmp_path_factory.mktemp("listing"))


def client(endpoint: str) -> Any:
    return boto3.client("dynamodb", region_name=REGION, endpoint_url=endpoint)


def sink(endpoint: str, table: str, **options: Any) -> DynamoDBSink:
    return DynamoDBSink(**{"table": table, "region": REGION, "endpoint": endpoint, "create": True, **options})


def test_the_command_that_is_told_gets_the_run_back(
    endpoint: str, listing: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    places = [f"sink.region={REGION}", f"sink.endpoint={endpoint}", "sink.create=true"]
    assert main(["push", str(listing), "sink=dynamodb", "sink.table=asked", *places]) == 0
    counted, told = capsys.readouterr().out.splitlines()
    assert counted == f"{read_results(listing)['run_id']}: 2 jobs, in the DynamoDB table asked ({endpoint})"
    words = shlex.split(told.removeprefix("get it back: "))
    assert words[:-1] == [
        "aws", "dynamodb", "execute-statement", "--region", REGION, "--endpoint-url", endpoint, "--statement",
    ]  # fmt: skip
    items = client(endpoint).execute_statement(Statement=words[-1])["Items"]
    plain = [{name: TypeDeserializer().deserialize(value) for name, value in item.items()} for item in items]
    assert sorted(item["kind"] for item in plain) == ["job", "job", "run"]
    throughput = {item["client"]: item["figures"]["names_per_s"]["value"] for item in plain if item["kind"] == "job"}
    for job in read_results(listing)["jobs"]:
        value = job["figures"]["names_per_s"]["value"]
        assert throughput[job["client"]] == value, "a Decimal equals a float only where it is exactly that"


def test_a_run_pushed_again_is_the_same_and_one_that_changed_is_as_it_is_now(
    endpoint: str, listing: Path, tmp_path: Path
) -> None:
    table = sink(endpoint, "again")

    def items() -> list[Any]:
        found = client(endpoint).scan(TableName="again")["Items"]
        return sorted(found, key=lambda item: (item["run_id"]["S"], item["part"]["S"]))

    def first_job_alone(results: dict[str, Any]) -> None:
        results.update(jobs=results["jobs"][:1], ended_at=None)

    def enlarge(results: dict[str, Any]) -> None:
        results["jobs"][1]["verification"] = {"notes": ["é" * 400_000]}

    partly = written_run(listing, tmp_path / "partly", first_job_alone)
    assert table.push(read_run(partly)).jobs == 1
    assert table.push(read_run(listing)).jobs == 2, "it was resumed"
    whole = items()
    assert table.push(read_run(listing)).jobs == 2
    assert items() == whole
    large = written_run(listing, tmp_path / "large", enlarge)
    table.push(read_run(large))
    assert len(items()) > len(whole)
    assert table.fetch(read_results(listing)["run_id"]) == [read_results(large)]
    table.push(read_run(partly))
    assert table.fetch(read_results(listing)["run_id"]) == [read_results(partly)]
    assert sink(endpoint, "again", raw_records=False).push(read_run(listing)).jobs == 2
    assert len(items()) == 3, "nothing is left of the raw records"


def test_runs_of_one_name_are_kept_apart(endpoint: str, listing: Path, tmp_path: Path) -> None:
    other = written_run(listing, tmp_path / "other", lambda results: results.update(started_at="2020-01-01T00:00:00Z"))
    table = sink(endpoint, "apart")
    for run in (listing, other):
        table.push(read_run(run))
    assert table.fetch(read_results(listing)["run_id"]) == [read_results(other), read_results(listing)]


def test_a_push_that_broke_off_is_noticed_and_mended(endpoint: str, listing: Path) -> None:
    table, run = sink(endpoint, "broken"), read_run(listing)
    table.push(run)
    job = {"run_id": {"S": run.run_id}, "part": {"S": f"{run.started_at}/job/000001"}}
    client(endpoint).delete_item(TableName="broken", Key=job)
    with pytest.raises(SinkError, match="has 1 jobs there and 2 by its own account: a push broke off"):
        table.fetch(run.run_id)
    table.push(run)
    assert table.fetch(run.run_id) == [read_results(listing)]


def test_a_push_again_that_broke_off_is_noticed_and_mended(endpoint: str, listing: Path, tmp_path: Path) -> None:
    def change(results: dict[str, Any]) -> None:
        for job in results["jobs"]:
            job["details"]["again"] = "yes"

    table, again = sink(endpoint, "broken_again"), written_run(listing, tmp_path / "again", change)
    table.push(read_run(listing))
    puts = itertools.count()

    def kill(**_: Any) -> None:
        if next(puts) == 2:  # the first job is there as it is now, and the other one as it was
            raise KeyboardInterrupt

    table._client.meta.events.register("before-call.dynamodb.PutItem", kill)
    with pytest.raises(KeyboardInterrupt):
        table.push(read_run(again))
    run_id = read_results(listing)["run_id"]
    with pytest.raises(SinkError, match="has 2 jobs there and none by its own account: a push broke off"):
        table.fetch(run_id)
    assert table.push(read_run(again)).jobs == 2
    assert table.fetch(run_id) == [read_results(again)]
    pieces = client(endpoint).query(
        TableName="broken_again",
        KeyConditionExpression="run_id = :id",
        ExpressionAttributeValues={":id": {"S": f"{run_id}#records"}},
    )["Items"]
    client(endpoint).delete_item(TableName="broken_again", Key={name: pieces[0][name] for name in ("run_id", "part")})
    with pytest.raises(SinkError, match=r"0 of 1 pieces of .* are there: push it again"):
        table.fetch_records(run_id, started_at=read_run(again).started_at, number=0)


def test_the_page_names_the_permissions_that_are_used_and_statements_that_work(
    endpoint: str, listing: Path, tmp_path: Path
) -> None:
    page = PAGE.read_text(encoding="utf-8")
    used: set[str] = set()
    whole, partly = (sink(endpoint, "bucketbench", raw_records=records) for records in (True, False))
    for table in (whole, partly):
        events = table._client.meta.events
        events.register("before-call.dynamodb", lambda model, **_: used.add(f"dynamodb:{model.name}"))
    run = read_run(written_run(listing, tmp_path / "run", lambda results: results.update(run_id="dataset/2026")))
    whole.push(run)
    partly.push(run)
    whole.fetch("dataset/2026")
    policy = json.loads(re.findall(r"```json\n(.*?)```", page, re.DOTALL)[0])
    assert set(policy["Statement"][0]["Action"]) == used | {"dynamodb:PartiQLSelect"}
    commands = re.findall(r"aws dynamodb execute-statement .*?--statement \\\n  (\".*\")\n", page)
    assert len(commands) == 2
    for text in commands:
        (statement,) = shlex.split(text.replace("2026-11-27_22-34-19", "2026").replace("= 'dataset'", "= 'listing'"))
        items = client(endpoint).execute_statement(Statement=statement)["Items"]
        assert items, statement


def test_a_table_that_is_not_there_or_not_ours_is_told(endpoint: str, listing: Path) -> None:
    run = read_run(listing)
    with pytest.raises(SinkError, match=r"the DynamoDB table absent .*: there is no such table: add sink.create=true"):
        sink(endpoint, "absent", create=False).push(run)
    client(endpoint).create_table(
        TableName="another",
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    with pytest.raises(SinkError, match=r"has the keys id \(HASH\), expected run_id \(HASH\) and part \(RANGE\)"):
        sink(endpoint, "another").push(run)


def refusal(code: str, message: str = "words of the service", status: int = 400) -> Answer:
    return Answer(status, json.dumps({"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": message}))


REFUSALS = [
    (refusal("AccessDeniedException"), "DescribeTable was refused: the credentials may not do this; docs/sinks.md"),
    (refusal("ThrottlingException"), "the table is throttled: push the run again later"),
    (refusal("ExpiredTokenException"), "the credentials have expired: give credentials in the environment"),
    (
        refusal("ValidationException", "Item size has exceeded\nx-amz-security-token:canary"),
        "Item size has exceeded (",
    ),
    (refusal("InternalServerError", status=500), "words of the service (InternalServerError)"),
]


def test_what_the_service_refuses_is_one_line(listing: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dynamodb, "_ATTEMPTS", 0)  # besides the first
    run = read_run(listing)
    with answering(*(answer for answer, _ in REFUSALS)) as (url, _):
        table = sink(url, "refused")
        for _, words in REFUSALS:
            with pytest.raises(SinkError) as raised:
                table.push(run)
            assert words in str(raised.value)
            assert "canary" not in str(raised.value)
            assert "\n" not in str(raised.value)


def test_a_table_that_is_throttled_for_a_moment_is_asked_again(listing: Path) -> None:
    answers = [refusal("ThrottlingException"), refusal("AccessDeniedException")]
    with answering(*answers) as (url, asked), pytest.raises(SinkError, match="AccessDeniedException"):
        sink(url, "throttled").push(read_run(listing))
    assert asked == ["POST /", "POST /"]


def test_without_credentials_a_region_or_a_network_it_is_told_what_is_missing(
    listing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dynamodb, "_ATTEMPTS", 1)
    run = read_run(listing)
    with pytest.raises(SinkError, match=r"no region is known: add sink\.region=REGION"):
        sink("http://127.0.0.1:9", "t_1", region=None).push(run)
    with pytest.raises(SinkError, match=r"it cannot be reached: .*127\.0\.0\.1:9"):
        sink("http://127.0.0.1:9", "t_1").push(run)
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(SinkError, match="there are no credentials: give credentials in the environment"):
        sink("http://127.0.0.1:9", "t_1").push(run)


def test_a_sweep_whose_sink_fails_has_its_results_and_is_pushed_later(
    endpoint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = run_of(
        "listing", tmp_path, "sink=dynamodb", "sink.table=later", f"sink.region={REGION}", f"sink.endpoint={endpoint}"
    )
    results = read_results(directory)
    assert results["ended_at"] is not None
    before = {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}
    capsys.readouterr()
    assert main(["push", str(directory)]) == 1
    assert "there is no such table" in capsys.readouterr().err
    assert main(["push", str(directory), "sink.create=true"]) == 0
    assert sink(endpoint, "later").fetch(results["run_id"]) == [results]
    assert {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()} == before
