"""A client that fails, in whatever way, is in the results as failed; it costs no other client anything."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from sweeps import SAMPLES, Finished, Workplace, new_workplace

from bucketbench.results import schema

pytestmark = pytest.mark.timeout(300)

CANARY = "canary-4f1d8c2b7a"
FAILURES = {
    "RaisesWhenBuilt": "RuntimeError: cannot be built for this reason",
    "RaisesMidway": "1 failed with an error; first: OSError: the connection was lost",
    "StreamBreaks": "2 failed with an error, ",
    "WrongBytes": "1 arrived with wrong content",
    "Missing": "2 never arrived",
    "Duplicated": "1 arrived more than once",
    "WorkerExits": "exited unexpectedly",
    "Killed": "ended by SIGKILL",
    "Hangs": "time limit",
    "TellsSecrets": "refused: [secret]",
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    return new_workplace(tmp_path_factory.mktemp("failing"))


@pytest.fixture(scope="module")
def finished(place: Workplace) -> Finished:
    clients = ",".join(["Good", *FAILURES, "GoodIterable"])
    environment = place.environment(
        SERVICE_TOKEN=f"token-{CANARY}",
        AWS_SECRET_ACCESS_KEY=f"aws-{CANARY}",
        AWS_SESSION_TOKEN=f"session-{CANARY}",
        AWS_PROFILE="no-such-profile",
    )
    return place.run("repeat=0", "time_limit_s=40", f"client={clients}", environment=environment)


def test_the_sweep_goes_on_and_says_that_jobs_failed(finished: Finished) -> None:
    assert finished.status == 1, finished.err
    assert "Traceback" not in finished.err
    assert [job["client"] for job in finished.results["jobs"]] == ["Good", *FAILURES, "GoodIterable"]
    assert finished.results["ended_at"] is not None
    assert finished.results["interrupted"] is False


@pytest.mark.parametrize("client", ["Good", "GoodIterable"])
def test_the_others_results_stay(finished: Finished, client: str) -> None:
    job = finished.job(client)
    assert (job["status"], job["reason"]) == ("ok", None)
    assert job["verification"]["checked"] == SAMPLES
    assert job["figures"]["samples"]["value"] == SAMPLES
    assert job["figures"]["throughput_mibs"]["value"] > 0
    assert job["figures"]["latency_p99_s"]["value"] is None, "no 99th percentile of six batches"


@pytest.mark.parametrize("client", FAILURES)
def test_a_failure_has_its_reason(finished: Finished, client: str) -> None:
    job = finished.job(client)
    assert job["status"] == "failed"
    assert FAILURES[client] in job["reason"]
    assert "\n" not in job["reason"]


def test_failed_samples_count_no_bytes(finished: Finished) -> None:
    for client, lost in (("RaisesMidway", 1), ("WrongBytes", 1)):
        figures = finished.job(client)["figures"]
        assert figures["samples"]["value"] == SAMPLES - lost
        assert figures["content_mib"]["value"] == pytest.approx((SAMPLES - lost) * 4096 / 2**20)
        assert figures["errors"]["value"] == lost


def test_a_stream_that_breaks_leaves_samples_missing(finished: Finished) -> None:
    verification = finished.job("StreamBreaks")["verification"]
    assert verification["checked"] == 2 * 7
    assert verification["errors"] == 2
    assert verification["missing"] == SAMPLES - 2 * 7 - 2


def test_a_job_that_recorded_nothing_has_reasons_for_figures(finished: Finished) -> None:
    for figure in finished.job("RaisesWhenBuilt")["figures"].values():
        assert figure["value"] is None
        assert figure["reason"]


def test_the_log_shows_where_a_job_was_stuck(finished: Finished) -> None:
    number = ["Good", *FAILURES].index("Hangs")
    assert finished.directory is not None
    log = (finished.directory / str(number) / "benchmark.log").read_text()
    assert "sample_clients.py" in log
    assert "in __getitem__" in log, "in a worker"


def test_nothing_is_left_running(finished: Finished, place: Workplace) -> None:
    assert finished.status == 1
    assert place.left_over() == []


def test_no_secret_is_in_any_file(finished: Finished) -> None:
    assert finished.directory is not None
    searched = [path for path in finished.directory.rglob("*") if path.is_file()]
    assert len(searched) > 50
    assert [path for path in searched if CANARY.encode() in path.read_bytes()] == []
    assert CANARY not in finished.out + finished.err
    number = ["Good", *FAILURES].index("TellsSecrets")
    assert "authorised with [secret]" in (finished.directory / str(number) / "benchmark.log").read_text()


def test_the_results_follow_their_schema(finished: Finished) -> None:
    parts = {f"{name}.schema.json": Resource.from_contents(schema(name)) for name in ("job_results", "run_results")}
    registry: Registry[object] = Registry().with_resources(parts.items())
    Draft202012Validator(schema("run_results"), registry=registry).validate(finished.results)
    assert finished.directory is not None
    for path in finished.directory.glob("*/job_results.json"):
        Draft202012Validator(schema("job_results"), registry=registry).validate(json.loads(path.read_bytes()))


def test_each_job_has_its_files(finished: Finished) -> None:
    assert finished.directory is not None
    assert (finished.directory / "multirun.yaml").is_file()
    names = {path.name for path in Path(finished.directory, "0").iterdir()}
    assert names >= {"job.json", "job_results.json", "benchmark.log", "operations.jsonl", "usage.jsonl", "outcome.json"}
