"""The end of a sweep: what the program's status is, and that a failed write is told."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from hydra.core.utils import JobStatus
from omegaconf import DictConfig, OmegaConf

from bucketbench.results.files import write_json
from bucketbench.results.record import RunRecord
from bucketbench.sweep.callback import ResultsCallback


def config(directory: Path, **sink: str) -> DictConfig:
    hydra = {"runtime": {"cwd": str(directory.parent), "config_sources": []}, "sweep": {"dir": directory.name}}
    return OmegaConf.create({"hydra": hydra, **({"sink": sink} if sink else {})})


def job(directory: Path, number: int, status: str) -> None:
    folder = directory / f"some-word-{number}"
    folder.mkdir()
    write_json(folder / "job_results.json", {"number": number, "client": "a", "status": status, "schema_version": 2})


@pytest.fixture
def run(tmp_path: Path) -> Path:
    directory = tmp_path / "run"
    directory.mkdir()
    RunRecord(directory=directory, scenario="dataset", command=(), jobs_planned=2).write()
    return directory


def test_results_that_cannot_be_written_end_the_program_with_status_1(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (run / "run_results.json").mkdir()  # nothing can take its place
    with pytest.raises(SystemExit) as ended:
        ResultsCallback().on_multirun_end(config(run))
    assert ended.value.code == 1
    assert "run_results.json could not be written" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("statuses", "code"), [(["ok", "failed"], 1), (["ok"], 1)], ids=["a job failed", "one is lost"]
)
def test_a_failed_or_lost_job_is_status_1(run: Path, statuses: list[str], code: int) -> None:
    for number, status in enumerate(statuses):
        job(run, number, status)
    with pytest.raises(SystemExit) as ended:
        ResultsCallback().on_multirun_end(config(run))
    assert ended.value.code == code


def test_a_sweep_whose_jobs_all_succeeded_is_status_0(run: Path) -> None:
    for number in (0, 1):
        job(run, number, "ok")
    ResultsCallback().on_multirun_end(config(run))
    assert (run / "run_results.json").is_file()


def test_a_job_that_ends_costs_no_other_its_result_where_writing_fails(run: Path) -> None:
    (run / "run_results.json").mkdir()
    ResultsCallback().on_job_end(config(run), None)


@pytest.mark.parametrize(("statuses", "code"), [(["ok", "ok"], 3), (["ok", "failed"], 1)])
def test_a_sink_that_fails_is_told_when_the_results_are_written(
    run: Path, capsys: pytest.CaptureFixture[str], statuses: list[str], code: int
) -> None:
    for number, status in enumerate(statuses):
        job(run, number, status)
    with pytest.raises(SystemExit) as ended:
        ResultsCallback().on_multirun_end(config(run, name="mine", _target_="no_such_module.Sink"))
    assert ended.value.code == code
    told = capsys.readouterr().err
    assert "NOT PUSHED to the sink: " in told
    assert f"send them by: bucketbench push {run}" in told
    assert json.loads((run / "run_results.json").read_bytes())["ended_at"] is not None


def test_a_single_job_that_should_be_pushed_is_told_that_it_is_not(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    returned = SimpleNamespace(status=JobStatus.COMPLETED, return_value=SimpleNamespace(ok=True))
    ResultsCallback().on_run_end(config(run), job_return=returned)
    with pytest.raises(SystemExit) as ended:
        ResultsCallback().on_run_end(config(run, name="mine", _target_="no_such_module.Sink"), job_return=returned)
    assert ended.value.code == 3
    assert "a single job is no run" in capsys.readouterr().err
