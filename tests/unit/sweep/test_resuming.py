"""A sweep that was interrupted and is resumed: what runs, with which configuration, and what its directory then has."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from finished_sweeps import NO_PAGE, read_results
from stubbed_sweeps import Finished, StubbedHarness, ended, leave_outcome, leave_records

from bucketbench.job import run as run_module
from bucketbench.job.testbeds import Testbeds
from bucketbench.results.job import JobResult
from bucketbench.results.lock import LOCK_FILE, held

IN_ORDER = "hydra.sweeper.order_seed=null"


def interrupt(directory: Path) -> None:
    leave_records(directory)  # and half a job's records are no measurement
    raise KeyboardInterrupt


def fail(directory: Path) -> None:
    leave_outcome(directory, reason="OSError: lost")


def own_client(directory: Path, **options: int) -> None:
    """A client of the user's own, in a file that is edited later."""
    fields = {"name": "mine", "_target_": "bucketbench.clients.obstore.ObstoreAsync", "options": options}
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "mine.yaml").write_text(yaml.safe_dump(fields))


def numbers_and_clients(results: dict[str, Any]) -> list[tuple[int, int, str, str]]:
    return [(job["number"], job["repeat"], job["client"], job["status"]) for job in results["jobs"]]


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Finished]:
    """A place with a sweep of four jobs, interrupted in its third; its second one failed."""
    place = tmp_path_factory.mktemp("place")
    own_client(place / "own" / "client", part_bytes=5)
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.chdir(place)
        harness = StubbedHarness(monkeypatch, serves=False)
        harness.worker.behaviours |= {"mine": interrupt, "obstore": fail}
        swept = [IN_ORDER, "client=boto3,obstore,mine,torchbucket-map", "repeat=0", "label=before lunch", "epochs=7"]
        return place, harness.run("dataset", "--config-dir", "own", *swept, NO_PAGE, page=True)


@pytest.fixture
def place(interrupted: tuple[Path, Finished], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, at another place than where the test is: a run is resumed where it was started."""
    original, done = interrupted
    assert done.directory is not None
    copied = tmp_path / "place"
    shutil.copytree(original, copied)
    for name in ("multirun.yaml", "jobs.json"):
        path = copied / done.directory.relative_to(original) / name
        path.write_text(path.read_text().replace(str(original), str(copied)))
    monkeypatch.chdir(tmp_path)
    return copied / done.directory.relative_to(original)


def test_what_an_interrupted_sweep_says(interrupted: tuple[Path, Finished]) -> None:
    _, done = interrupted
    assert done.status == 130
    assert f"go on with it by: bucketbench resume {done.directory}" in done.err
    assert done.directory is not None
    assert not (done.directory / LOCK_FILE).exists()
    assert [job[3] for job in numbers_and_clients(done.results)] == ["ok", "failed", "failed"]


def test_the_missing_jobs_run_as_they_were_composed(harness: StubbedHarness, place: Path) -> None:
    common = place / "multirun.yaml"
    common.write_text(common.read_text().replace("html: false", "html: true"))  # which the other tests do without
    own_client(place.parents[2] / "own" / "client", part_bytes=6)
    (place.parents[2] / "conf").mkdir()
    (place.parents[2] / "conf" / "dataset.yaml").write_text("no: [YAML\n")
    status, out, err = harness.bucketbench("resume", str(place))
    assert status == 1, err  # for the job that had failed
    assert [job.client for job in harness.worker.started] == ["mine", "torchbucket-map"]
    options = [job.description.job["client"]["options"] for job in harness.worker.started if job.client == "mine"]
    assert options == [{"part_bytes": 5}]
    assert {job.description.job["epochs"] for job in harness.worker.started} == {7}
    results = read_results(place)
    clients = ["boto3", "obstore", "mine", "torchbucket-map"]
    assert numbers_and_clients(results) == [
        (number, 0, client, "failed" if number == 1 else "ok") for number, client in enumerate(clients)
    ]
    assert (results["interrupted"], len(results["resumed_at"]), results["jobs_planned"]) == (False, 1, 4)
    assert results["ended_at"] is not None
    assert results["label"] == "before lunch"
    operations = (place / "2" / "operations.jsonl").read_text().splitlines()
    assert len(operations) == 3, "what the interrupted attempt had recorded is gone"
    assert "4 jobs, 2 of them done" in err
    assert "before lunch" in out
    assert (place / "report.html").is_file()
    assert not (place / LOCK_FILE).exists()
    runs = list(place.parent.iterdir())
    assert runs == [place], "no run beside it"


def test_resuming_again_changes_nothing_but_the_report(harness: StubbedHarness, place: Path) -> None:
    assert harness.bucketbench("resume", str(place))[0] == 1
    before = {path: path.read_bytes() for path in place.rglob("*") if path.is_file() and path.parent != place}
    harness.worker.started.clear()
    status, out, err = harness.bucketbench("resume", str(place))
    assert (status, harness.worker.started) == (1, [])
    assert "nothing is missing: all 4 jobs are done, 1 of them failed; --failed runs those again" in err
    assert "torchbucket-map" in out
    assert {path: path.read_bytes() for path in before} == before
    status, _, err = harness.bucketbench("resume", str(place), "--failed")
    assert status == 0, err
    assert [job.client for job in harness.worker.started] == ["obstore"]
    assert {job["status"] for job in read_results(place)["jobs"]} == {"ok"}


def test_a_resumed_sweep_can_be_interrupted_again(harness: StubbedHarness, place: Path) -> None:
    harness.worker.behaviours["torchbucket-map"] = interrupt
    status, _, err = harness.bucketbench("resume", str(place))
    assert (status, "go on with it by" in err) == (130, True)
    del harness.worker.behaviours["torchbucket-map"]
    assert harness.bucketbench("resume", str(place))[0] == 1
    results = read_results(place)
    assert (len(results["jobs"]), len(results["resumed_at"])) == (4, 2)


def test_what_is_not_resumed(harness: StubbedHarness, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*arguments: str, status: int = 2) -> str:
        ended, out, err = harness.bucketbench("resume", *arguments)
        assert (ended, out, harness.worker.started) == (status, "", [])
        assert err.count("\n") == 1
        return err

    assert "is not the directory of a run" in refused(str(place.parent), status=1)
    with held(place):
        assert "still goes on" in refused(str(place))
    record = json.loads((place / "run.json").read_text())
    record["commit"], record["versions"]["hydra-core"] = "another", "1.0"
    (place / "run.json").write_text(json.dumps(record))
    said = refused(str(place))
    assert "the commit was another and is" in said
    assert "hydra-core was 1.0 and is" in said
    assert "--despite-changes" in said
    jobs = json.loads((place / "jobs.json").read_text())
    jobs["digests"][0]["experiment"] = "0" * 16
    (place / "jobs.json").write_text(json.dumps(jobs))
    assert "client=boto3 would be other ones by now" in refused(str(place), "--despite-changes")
    (place / "jobs.json").unlink()
    assert "has no jobs.json" in refused(str(place), status=1)


def test_a_sweep_goes_on_despite_changes_where_it_is_told_so(harness: StubbedHarness, place: Path) -> None:
    record = json.loads((place / "run.json").read_text())
    (place / "run.json").write_text(json.dumps({**record, "commit": "another"}))
    assert harness.bucketbench("resume", str(place), "--despite-changes")[0] == 1
    results = read_results(place)
    assert len(results["jobs"]) == 4
    assert "resumed" in harness.bucketbench("report", str(place))[1]


def test_a_killed_sweep_is_resumed(harness: StubbedHarness) -> None:
    killed = harness.run("listing", IN_ORDER, "repeat=0,1", "client=boto3,obstore")
    assert killed.directory is not None
    shutil.rmtree(killed.directory / "1")
    (killed.directory / "2" / "job_results.json").unlink()  # and what it had recorded until then is there
    assert harness.bucketbench("resume", str(killed.directory))[0] == 0
    assert [job[0] for job in numbers_and_clients(read_results(killed.directory))] == [0, 1, 2, 3]
    order = [(job.directory.name, job.client) for job in harness.worker.started[4:]]
    assert order == [("1", "obstore"), ("2", "boto3")]


def test_a_sweep_that_ended_while_it_was_prepared_is_resumed(
    harness: StubbedHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = harness._make

    def interrupted_once(*arguments: Any, **options: Any) -> Any:
        monkeypatch.setattr("bucketbench.scenarios.dataset.preparation.ensure_dataset", make)
        raise KeyboardInterrupt

    monkeypatch.setattr("bucketbench.scenarios.dataset.preparation.ensure_dataset", interrupted_once)
    first = harness.run("dataset", "repeat=0", "client=boto3")
    assert (first.status, "no job had begun" in first.err) == (130, True)
    assert harness.bucketbench("report")[0] == 2, "nothing that a report could take for a run"
    status, _, err = harness.bucketbench("resume", str(first.directory))
    assert status == 0, err
    assert [job["status"] for job in first.jobs] == ["ok"]


def test_a_lost_job_is_over_and_has_failed(harness: StubbedHarness) -> None:
    harness.worker.behaviours["boto3"] = ended(-9)
    done = harness.run("listing", "repeat=0", "client=boto3")
    assert harness.bucketbench("resume", str(done.directory))[0] == 1
    assert len(harness.worker.started) == 1, "a client that fails does not run until it succeeds by chance"


def test_ctrl_c_after_a_measurement_costs_no_result(harness: StubbedHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a job's figures are made of its records, and while the testbeds are ended after the last job."""
    results, leave = run_module.job_result, Testbeds.__exit__

    def interrupted_once(*arguments: Any, **options: Any) -> JobResult:
        monkeypatch.setattr(run_module, "job_result", results)
        raise KeyboardInterrupt

    def interrupted_leaving(*arguments: Any) -> None:
        monkeypatch.setattr(Testbeds, "__exit__", leave)
        raise KeyboardInterrupt

    monkeypatch.setattr(run_module, "job_result", interrupted_once)
    done = harness.run("listing", IN_ORDER, "repeat=0", "client=boto3,obstore")
    assert (done.status, numbers_and_clients(done.results)) == (130, [(0, 0, "boto3", "ok")])
    monkeypatch.setattr("bucketbench.sweep.sweep.Testbeds.__exit__", interrupted_leaving)
    status, _, err = harness.bucketbench("resume", str(done.directory))
    assert (status, "go on with it by" in err) == (130, True)
    assert [job[3] for job in numbers_and_clients(done.results)] == ["ok", "ok"]
    assert "nothing is missing" in harness.bucketbench("resume", str(done.directory))[2]
    assert (done.results["interrupted"], len(harness.worker.started)) == (False, 2)


def test_a_damaged_result_is_told_with_what_to_do(harness: StubbedHarness, place: Path) -> None:
    for content in ("", "{}", '{"schema_version": 3}'):
        (place / "0" / "job_results.json").write_text(content)
        status, _, err = harness.bucketbench("resume", str(place))
        assert (status, err.count("\n"), harness.worker.started) == (1, 1, [])
        assert "0/job_results.json" in err
    assert "move it away to do without that job, which bucketbench resume then runs again" in err
    (place / "0" / "job_results.json").unlink()
    assert harness.bucketbench("resume", str(place))[0] == 1
    assert len(read_results(place)["jobs"]) == 4


def test_another_version_of_what_a_client_stands_on_is_told(harness: StubbedHarness, place: Path) -> None:
    file = place / "0" / "job_results.json"
    fields = json.loads(file.read_text())
    file.write_text(json.dumps({**fields, "versions": {"python": "3", "hydra-core": "0.1", "libcurl": "7"}}))
    status, _, err = harness.bucketbench("resume", str(place))
    assert (status, harness.worker.started) == (2, [])
    assert "hydra-core was 0.1 and is" in err
    assert "libcurl" not in err
    assert harness.bucketbench("resume", str(place), "--despite-changes")[0] == 1
