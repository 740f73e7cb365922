"""What of a run a sink is given: all of it, without secrets, in numbers that tables hold."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from sample_runs import job, records_of, run_results, write_run

from bucketbench.errors import ResultsError
from bucketbench.results import SCHEMA_VERSION
from bucketbench.results.record import RunRecord
from bucketbench.sinks.document import marked, read_run, results_of, unmarked

CANARY = "canary-4f1d8c2b7a"


def together(directory: Path) -> dict[str, Any]:
    run = read_run(directory)
    return results_of(run.fields, {found.number: found.results for found in run.jobs})


@pytest.mark.parametrize("whole", [True, False], ids=["its directory", "its file"])
def test_a_run_is_told_as_it_is(tmp_path: Path, whole: bool) -> None:
    results = run_results(job(0), job(1))
    directory = write_run(tmp_path / "run", results)
    read = read_run(directory if whole else directory / "run_results.json")
    assert together(directory) == results
    assert (read.run_id, read.jobs_planned, [found.number for found in read.jobs]) == (results["run_id"], 2, [0, 1])
    assert [records_of(found) for found in read.jobs] == [
        {"operations.jsonl": f'{{"kind": "fetch", "of": {number}}}\n'} for number in range(2)
    ]


def test_records_of_all_ranks_are_there(tmp_path: Path) -> None:
    directory = write_run(tmp_path / "run", run_results(job(0)))
    for rank in range(2):
        folder = directory / "0" / "ranks" / str(rank)
        folder.mkdir(parents=True)
        (folder / "usage.jsonl").write_text(f"{rank}\n")
    (found,) = read_run(directory).jobs
    assert records_of(found) == {"ranks/0/usage.jsonl": "0\n", "ranks/1/usage.jsonl": "1\n"}


def test_what_is_no_number_is_null_and_a_flag(tmp_path: Path) -> None:
    odd = {"unit": "s", "value": math.nan, "reason": None}
    value = {"figures": {"a": odd, "b": {"value": -math.inf}}, "of a list": [math.inf, 1.5], "text": "\udc80x"}
    assert marked(value) == {
        "figures": {
            "a": {"unit": "s", "value": None, "value_not_finite": "nan", "reason": None},
            "b": {"value": None, "value_not_finite": "-inf"},
        },
        "of a list": ["inf", 1.5],
        "text": "\\udc80x",
    }
    assert json.dumps(marked(value), allow_nan=False)
    back = unmarked(marked({"figures": value["figures"]}))
    assert json.dumps(back) == json.dumps({"figures": value["figures"]})
    directory = write_run(tmp_path / "run", run_results(job(0, figures={"a": odd})))
    assert math.isnan(together(directory)["jobs"][0]["figures"]["a"]["value"])


def test_no_secret_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVICE_TOKEN", f"service-{CANARY}")
    config = {"client": {"api_key": f"key-{CANARY}", "key": 3}, "endpoint": f"https://me:{CANARY}@host/", "tokens": 5}
    results = run_results(
        job(0, reason=f"refused: service-{CANARY}", config=config, parameters={"client.access_key": f"x-{CANARY}"}),
        command=[f"x=service-{CANARY}"],
    )
    directory = write_run(tmp_path / "run", results)
    (directory / "0" / "operations.jsonl").write_text(f'{{"error": "service-{CANARY}"}}')
    run = read_run(directory)
    (found,) = run.jobs
    assert CANARY not in json.dumps([run.fields, found.results, records_of(found)])
    assert found.results["config"] == {
        "client": {"api_key": "[secret]", "key": 3}, "endpoint": "https://[secret]@host/", "tokens": 5,
    }  # fmt: skip
    assert found.results["versions"] == job(0)["versions"], "tokenizers is a package"


def test_jobs_without_numbers_have_their_places(tmp_path: Path) -> None:
    old = [{name: value for name, value in job(place).items() if name != "number"} for place in range(2)]
    results = run_results(*old, schema_version=1)
    directory = write_run(tmp_path / "run", results)
    assert together(directory) == results
    assert [found.number for found in read_run(directory).jobs] == [0, 1]


def test_a_run_that_was_killed_is_put_together_and_left_alone(tmp_path: Path) -> None:
    directory = write_run(tmp_path / "run", run_results(job(0), job(1)))
    (directory / "run_results.json").unlink()
    record = RunRecord(directory=directory, scenario="dataset", command=("a=1",), jobs_planned=3)
    record.write()
    before = sorted(directory.rglob("*"))
    run = read_run(directory)
    assert (run.started_at, run.fields["ended_at"], len(run.jobs), run.jobs_planned) == (record.started_at, None, 2, 3)
    assert sorted(directory.rglob("*")) == before


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "there is no run at"),
        ("[", "is damaged, it is not whole JSON"),
        ("[]", "expected an object, got list"),
        (json.dumps({"schema_version": "2"}), "its schema_version is '2'"),
        (json.dumps(run_results(schema_version=99)), f"reads up to {SCHEMA_VERSION}: update it"),
        (json.dumps(run_results()), "has no job that ended"),
        (json.dumps(run_results(job(0), jobs=[1])), "jobs is no list of objects"),
        (json.dumps(run_results(job(0), started_at="noon")), "started_at is 'noon'"),
    ],
)
def test_what_is_no_run_is_told(tmp_path: Path, content: str | None, words: str) -> None:
    directory = tmp_path / "run"
    directory.mkdir()
    if content is not None:
        (directory / "run_results.json").write_text(content)
    with pytest.raises(ResultsError, match=words):
        read_run(directory)
    with pytest.raises(ResultsError, match="there is no run at"):
        read_run(tmp_path / "nowhere")
