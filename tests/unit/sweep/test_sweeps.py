"""What a sweep makes of its jobs, however they end: order, results, statuses, messages. Nothing is measured here."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from result_schemas import validate
from stubbed_sweeps import (
    SAMPLES,
    Behaviour,
    Finished,
    StubbedHarness,
    ended,
    leave_outcome,
    leave_records,
    logging_restored,
)

from bucketbench.cli import main

CANARY = "canary-4f1d8c2b7a"


def leave(*, reason: str | None = None, errors: int = 0, **verification: int) -> Behaviour:
    """Records of a job that came to its end, and what it concluded."""

    def behave(directory: Path) -> None:
        leave_records(directory, errors=errors)
        leave_outcome(directory, reason=reason, **verification)

    return behave


def cannot_start(directory: Path) -> None:
    raise OSError("no such interpreter")


def tells_secrets(directory: Path) -> None:
    secret = os.environ["SERVICE_TOKEN"]
    home = Path.home()
    (directory / "benchmark.log").write_text(f"authorised with {secret} of {home}/.netrc\n")
    leave_records(directory, error=f"OSError: {home / 'data'} has no {secret}")
    leave_outcome(directory, reason=f"RuntimeError: refused: {secret} of {home}/.netrc")


def dies_in_a_line(directory: Path) -> Any:
    leave_records(directory)
    records = directory / "operations.jsonl"
    records.write_text(records.read_text()[:-20])
    return ended(1)(directory)


FAILURES: dict[str, tuple[Behaviour, str]] = {
    "obstore": (leave(reason="OSError: lost", errors=1), "OSError: lost"),
    "raw": (leave(errors=2, mismatched=2), "2 arrived with wrong content"),
    "s3fs-batch": (ended(-9), "ended by SIGKILL, as the kernel does when memory runs out"),
    "s3fs-split": (ended(-9, timed_out=True), "killed after 1 s, the job's time limit"),
    "raw-split": (cannot_start, "the job could not be run: OSError: no such interpreter"),
    "obstore-split": (tells_secrets, "refused: [secret] of ~/.netrc"),
    "obstore-async": (dies_in_a_line, "exited with status 1"),
}
ALL = ["boto3", *FAILURES, "torchbucket-map"]


@pytest.fixture(scope="module")
def failing(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.chdir(tmp_path_factory.mktemp("failing"))
        home = tmp_path_factory.mktemp("home-of-someone")
        monkeypatch.setenv("HOME", str(home))
        secrets = {"SERVICE_TOKEN": "token", "AWS_SECRET_ACCESS_KEY": "aws", "AWS_SESSION_TOKEN": "session"}
        for name, value in secrets.items():
            monkeypatch.setenv(name, f"{value}-{CANARY}")
        harness = StubbedHarness(monkeypatch, serves=False)
        harness.worker.behaviours.update({client: behave for client, (behave, _) in FAILURES.items()})
        # What the key's name does not betray: a directory at home, and a short secret, which may be a word.
        planted = [f"cache_dir={home}/cache", "disambiguator=hunter-2"]
        monkeypatch.setenv("MY_PASSWORD", "hunter-2")
        return harness.run("dataset", "repeat=0", f"client={','.join(ALL)}", *planted)


def test_a_failed_job_has_its_reason_and_costs_no_other_anything(failing: Finished) -> None:
    assert failing.status == 1
    assert "Traceback" not in failing.err
    assert [job["client"] for job in failing.jobs] == ALL
    for client, (_, words) in FAILURES.items():
        job = failing.job(client)
        assert job["status"] == "failed"
        assert words in job["reason"]
        assert "\n" not in job["reason"]
    for client in ("boto3", "torchbucket-map"):
        job = failing.job(client)
        assert (job["status"], job["reason"], job["verification"]["checked"]) == ("ok", None, SAMPLES)
        assert job["figures"]["samples"]["value"] == SAMPLES
        assert job["figures"]["latency_p99_s"]["value"] is None, "no 99th percentile of one batch"
    assert (failing.results["interrupted"], failing.results["ended_at"] is None) == (False, False)


def test_figures_are_of_what_arrived(failing: Finished) -> None:
    for client, lost in (("obstore", 1), ("raw", 2)):
        figures = failing.job(client)["figures"]
        assert figures["samples"]["value"] == figures["content_mib"]["value"] == SAMPLES - lost
        assert figures["errors"]["value"] == lost
    assert failing.job("obstore-async")["figures"]["samples"]["value"] == SAMPLES, "the whole lines count"
    for client in ("s3fs-batch", "raw-split"):
        for figure in failing.job(client)["figures"].values():
            assert figure["value"] is None
            assert figure["reason"]


def test_no_secret_is_in_any_file(failing: Finished) -> None:
    assert failing.directory is not None
    searched = [path for path in failing.directory.rglob("*") if path.is_file()]
    assert len(searched) > 2 * len(ALL)
    assert [path for path in searched if CANARY.encode() in path.read_bytes()] == []
    assert CANARY not in failing.out + failing.err
    log = failing.directory / str(ALL.index("obstore-split")) / "benchmark.log"
    assert log.read_text() == "authorised with [secret] of ~/.netrc\n"


def test_no_home_and_no_planted_secret_is_in_any_result(failing: Finished) -> None:
    assert failing.directory is not None
    names = ("run_results.json", "job_results.json", "operations.jsonl", "usage.jsonl", "outcome.json", "benchmark.log")
    searched = [path for path in failing.directory.rglob("*") if path.name in names]
    assert {path.name for path in searched} == set(names)
    for path in searched:
        assert "home-of-someone" not in path.read_text()
        assert "hunter-2" not in path.read_text()
    job = failing.job("obstore-split")
    assert (job["config"]["cache_dir"], job["disambiguator"]) == ("~/cache", "[secret]")
    assert failing.results["command"][-2:] == ["cache_dir=~/cache", "disambiguator=[secret]"]


def test_the_results_follow_their_schema(failing: Finished) -> None:
    validate("run_results", failing.results)
    assert failing.directory is not None
    files = sorted(failing.directory.glob("*/job_results.json"))
    assert len(files) == len(ALL)
    for path in files:
        validate("job_results", json.loads(path.read_bytes()))
    assert (failing.directory / "multirun.yaml").is_file()
    found = {path.name for path in Path(failing.directory, "0").iterdir()}
    assert found >= {"job.json", "job_results.json", "benchmark.log", "operations.jsonl", "usage.jsonl", "outcome.json"}


def test_repeats_are_interleaved_and_the_results_so_far_are_always_there(harness: StubbedHarness) -> None:
    so_far = []

    def look(directory: Path) -> None:
        path = directory.parent / "run_results.json"
        results = json.loads(path.read_bytes()) if path.exists() else {"jobs": [], "ended_at": None}
        so_far.append((len(results["jobs"]), results["ended_at"]))
        leave()(directory)

    harness.worker.behaviours["boto3"] = look
    done = harness.run("listing", "repeat=0,1", "client=boto3,obstore", "hydra.sweep.subdir=job-${hydra.job.num}")
    assert done.status == 0, done.err
    order = [(job["repeat"], job["client"], job["number"]) for job in done.jobs]
    assert order == [(0, "boto3", 0), (0, "obstore", 1), (1, "obstore", 2), (1, "boto3", 3)], "in an order drawn"
    assert so_far == [(0, None), (3, None)]
    assert done.results["ended_at"] is not None
    assert done.directory is not None
    assert (done.directory / "job-3" / "job_results.json").is_file()
    assert len(harness.testbeds) == 1, "one serves all jobs"
    assert harness.testbeds[0].get("directory") is None, "names are kept in memory"
    assert " ".join(done.out.split()).startswith("listing scenario: 4 jobs of 2 clients, 0 failed")


def test_an_interrupted_sweep_keeps_what_was_done(harness: StubbedHarness) -> None:
    def interrupt(directory: Path) -> None:
        raise KeyboardInterrupt

    harness.worker.behaviours["obstore"] = interrupt
    sink = ["sink=dynamodb", "sink.table=a-table"]
    done = harness.run("listing", "repeat=0", "client=boto3,obstore,torchbucket", *sink)
    assert done.status == 130
    assert f"send them by: bucketbench push {done.directory}" in done.err
    assert "Traceback" not in done.err
    assert "boto3 " in done.out, "the table of what was done"
    assert [(job["client"], job["status"], job["reason"]) for job in done.jobs] == [
        ("boto3", "ok", None), ("obstore", "failed", "interrupted"),
    ]  # fmt: skip
    assert (done.results["interrupted"], done.results["jobs_planned"]) == (True, 3)


def test_a_single_job_without_a_sweep(harness: StubbedHarness) -> None:
    alone = ["hydra.mode=RUN", "client=boto3"]
    done = harness.run("listing", *alone, "hydra.run.dir=alone")
    assert done.status == 0, done.err
    result = json.loads(Path("alone", "job_results.json").read_bytes())
    assert (result["status"], result["verification"]["checked"]) == ("ok", SAMPLES)
    harness.worker.behaviours["boto3"] = leave(missing=1)
    assert harness.run("listing", *alone, "hydra.run.dir=again").status == 1
    assert harness.runs("listing") == []


def test_jobs_at_the_same_time_on_one_machine_are_refused_unless_asked_for(harness: StubbedHarness) -> None:
    swept = ["hydra.sweeper.jobs_at_once=null", "repeat=0,1", "client=boto3"]
    refused = harness.run("listing", *swept)
    assert refused.status == 2
    assert "parallel_on_one_host" in refused.err
    assert harness.worker.started == []
    done = harness.run("listing", *swept, "hydra.sweeper.parallel_on_one_host=true")
    assert done.status == 0, done.err
    assert [job["status"] for job in done.jobs] == ["ok", "ok"]


def test_a_client_set_up_in_two_ways_is_two_contestants(harness: StubbedHarness) -> None:
    done = harness.run("dataset", "client=torchbucket-map", "+client.options.concurrency=8,16", "repeat=0")
    assert done.status == 0, done.err
    first, second = done.jobs
    assert first["configuration"]["experiment"] == second["configuration"]["experiment"]
    assert first["configuration"]["client"] != second["configuration"]["client"]
    assert "torchbucket-map (concurrency=8)" in done.out.replace("\n", " ")
    options = [job.description.job["client"]["options"] for job in harness.worker.started]
    assert options == [{"concurrency": 8}, {"concurrency": 16}]


def test_each_testbed_of_a_cold_cache_has_each_data_set(harness: StubbedHarness) -> None:
    done = harness.run("dataset", "client=boto3", "repeat=0", "data=jpeg_100kib,png_1mib", "target.tls=false,true")
    assert done.status == 0, done.err
    assert [options["tls"] for options in harness.testbeds] == [False, True]
    assert len(set(harness.made)) == len(harness.made) == 4
    for job in harness.worker.started:
        target = job.description.job["target"]
        assert (target["endpoint"], f"s3://{target['bucket']}/{target['prefix']}") in harness.made
        assert len(Path(job.description.job["samples_file"]).read_text().splitlines()) == SAMPLES
    served = {(job.description.job["target"]["endpoint"], job.description.job["target"]["prefix"])
              for job in harness.worker.started}  # fmt: skip
    assert len(served) == 4


def test_a_reader_that_goes_away_costs_no_result(harness: StubbedHarness) -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    with (
        os.fdopen(theirs, "w") as out,
        os.fdopen(os.dup(theirs), "w") as err,
        redirect_stdout(out),
        redirect_stderr(err),
        logging_restored(),
    ):
        assert main(["run", "listing", "repeat=0", "client=boto3"]) == 0
    (run,) = harness.runs("listing")
    assert [job["status"] for job in json.loads((run / "run_results.json").read_bytes())["jobs"]] == ["ok"]


def test_sweeps_of_the_same_second_have_directories_of_their_own(harness: StubbedHarness) -> None:
    now = datetime.now().astimezone()
    taken = [f"{now + timedelta(seconds=seconds):%Y-%m-%d_%H-%M-%S}" for seconds in range(120)]
    for name in taken:
        Path("multirun", "listing", name).mkdir(parents=True)
    done = harness.run("listing", "repeat=0", "client=boto3")
    assert done.status == 0, done.err
    assert done.directory is not None
    assert done.directory.name.removesuffix("-2") in taken
    assert done.directory.name not in taken


def test_a_client_that_does_not_speak_the_protocol_is_refused_before_anything_starts(harness: StubbedHarness) -> None:
    done = harness.run("dataset", "repeat=0", "client=torchbucket-map,boto3", "target=local_gs")
    assert done.status == 2
    assert "client=boto3 reads s3" in done.err
    assert "gcsfs-batch" in done.err
    assert harness.runs("dataset") == harness.testbeds == harness.worker.started == []


def test_a_sink_that_cannot_be_used_is_refused_before_anything_starts(harness: StubbedHarness) -> None:
    swept = ["listing", "repeat=0", "client=boto3", "sink=dynamodb", "sink.table=a-table"]
    for override, words in (
        ("sink.create=true,false", "sink cannot be swept"),
        ("sink.table=a+b", "sink.table=a+b cannot"),
    ):
        done = harness.run(*swept, override)
        assert (done.status, done.err.count("\n")) == (2, 1)
        assert words in done.err
    assert harness.runs("listing") == harness.worker.started == []


def test_hydras_own_options_work(harness: StubbedHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    status, out, _ = harness.bucketbench("run", "dataset", "--cfg", "job", "epochs=7")
    assert (status, "epochs: 7" in out) == (0, True)
    assert "hydra_plugins.bucketbench" in harness.bucketbench("run", "dataset", "--cfg", "hydra")[1]
    assert "workload/none" in harness.bucketbench("run", "dataset", "--info", "defaults")[1]
    assert "torchbucket-sequential" in harness.bucketbench("run", "listing", "--help")[1]
    Path("short.yaml").write_text("defaults: [dataset, _self_]\nepochs: 9\n")
    named = ["--config-dir", ".", "--config-name", "short", "--cfg", "job"]
    assert "epochs: 9" in harness.bucketbench("run", "dataset", *named)[1]
    monkeypatch.setenv("COMP_LINE", "bucketbench run listing client=boto")
    monkeypatch.setenv("COMP_POINT", "100")
    assert harness.bucketbench("-sc", "query=bash")[1].split() == ["client=boto3"]
    assert not Path("multirun").exists()


@pytest.fixture
def extension(tmp_path: Path) -> Iterator[Path]:
    """A folder with a scenario, a client and a sink of a user's own."""
    own = tmp_path / "own"
    source = Path(__file__).parents[2] / "integration" / "harness" / "extension"
    shutil.copytree(source, own, ignore=shutil.ignore_patterns("__pycache__"))
    yield own
    for name in ("rounds", "rounds.scenario", "counting"):
        sys.modules.pop(name, None)


def test_a_scenario_and_a_sink_of_a_users_own(harness: StubbedHarness, extension: Path) -> None:
    own = ["rounds", "--config-dir", str(extension)]
    done = harness.run(*own, "--multirun", "repeat=0,1", "times=2,4", "hydra/callbacks=[results,counting]", page=True)
    assert done.status == 0, done.err
    assert "rounds/s" in (done.directory / "report.html").read_text()
    assert json.loads(Path("multirun", "rounds", "pushed.json").read_text()) == [0, 1, 2, 3]
    order = [(job["repeat"], job["parameters"]["times"], job["client"], job["status"]) for job in done.jobs]
    assert order == [(repeat, times, "waiting", "ok") for repeat in (0, 1) for times in (2, 4)]
    wrong = harness.bucketbench("run", *own, "times=0")
    assert (wrong[0], wrong[2].count("\n")) == (2, 1)
    assert "times=0 cannot be used: expected a whole number from 1 to 100" in wrong[2]
