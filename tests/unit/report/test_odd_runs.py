"""Runs whose files are not where, or not what, they usually are: links, pipes, other encodings, odd values."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from recorded_runs import recorded_run, sweep_jobs
from report_results import PARAMETERS, job, small_run, write_run

from bucketbench.advice.command import main as recommend
from bucketbench.errors import ResultsError
from bucketbench.report import load_run, newest_run, render_table
from bucketbench.report.derivation import derive_again
from bucketbench.report.html.raw_records import read_records
from bucketbench.report.runs import every_run
from bucketbench.report.values import identity, override_text
from bucketbench.results.files import job_directories, read_job_results
from bucketbench.results.record import RECORD_FILE, RunRecord
from bucketbench.scenarios import find_scenario
from bucketbench.sinks.command import main as push
from bucketbench.sinks.document import read_run


def elsewhere(run: Path, *names: str) -> None:
    """Move jobs of a run to another place, and leave links to them."""
    for name in names:
        place = run.parent / "another-disk" / name
        place.parent.mkdir(exist_ok=True)
        (run / name).rename(place)
        (run / name).symlink_to(place)


def test_jobs_that_are_links_are_jobs(tmp_path: Path) -> None:
    run = recorded_run(tmp_path / "run", sweep_jobs(workers=(1,), repeats=1))
    elsewhere(run, "0", "2")
    (run / "again").symlink_to(run / "1")  # the same job by another name
    (run / "loop").symlink_to(run)
    (run / "root").symlink_to("/")  # which nothing walks through
    assert [one.name for one in job_directories(run)] == ["0", "1", "2"]
    assert len(read_job_results(run)) == 3
    for job_directory in job_directories(run):
        (job_directory / "outcome.json").write_text(json.dumps({"server": None}))
    whole = load_run(run)
    assert len(derive_again(whole).jobs) == 3
    stream = find_scenario("dataset").table.streams
    records, absent = read_records(whole, stream, parameters={identity(one.parameters) for one in whole.jobs})
    assert (len(records), absent) == (3, [])
    assert [[name for name, _ in one.records()] for one in read_run(run).jobs] == [
        ["operations.jsonl", "usage.jsonl"]
    ] * 3
    (run / "run_results.json").unlink()
    assert len(load_run(run).jobs) == 3


def test_a_run_that_is_a_link_is_there_once(tmp_path: Path) -> None:
    older, newer = (
        write_run(tmp_path / "multirun" / "dataset" / name, small_run()[:2]) for name in ("2026-01-01", "2026-02-01")
    )
    (older.parent / "best").symlink_to(older)
    far = write_run(tmp_path / "another-disk" / "2026-03-01", small_run()[:2])
    (older.parent / "far").symlink_to(far)
    found = every_run(tmp_path / "multirun")
    assert found == [older, newer, older.parent / "far"]
    assert newest_run(tmp_path / "multirun") == older.parent / "far"
    assert load_run(older.parent / "best").name == "dataset/2026-01-01"


@pytest.mark.parametrize("kind", ["pipe", "directory"])
def test_results_that_are_no_file_are_told_and_not_waited_for(tmp_path: Path, kind: str) -> None:
    run = write_run(tmp_path / "run", small_run()[:2])
    results = run / "run_results.json"
    results.unlink()
    os.mkfifo(results) if kind == "pipe" else results.mkdir()
    with pytest.raises(ResultsError, match=r"run_results\.json is no file \(move it away"):
        load_run(run)
    with pytest.raises(ResultsError, match=r"run_results\.json is no file"):
        read_run(run)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32-le"])
def test_other_encodings_of_json_are_read(tmp_path: Path, encoding: str) -> None:
    run = write_run(tmp_path / "run", small_run()[:2])
    file = run / "run_results.json"
    file.write_text(file.read_text(), encoding=encoding)
    assert len(load_run(run).jobs) == 2


def test_a_number_of_more_digits_than_python_reads_is_told(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", small_run()[:2])
    (run / "run_results.json").write_text(f'{{"jobs": {"9" * 5000}}}')
    with pytest.raises(ResultsError, match="is damaged, it is not whole JSON: Exceeds the limit"):
        load_run(run)


@pytest.mark.parametrize("value", [10**400, float("nan"), float("inf"), "2"])
def test_a_figure_that_is_no_number_is_told_with_its_job(tmp_path: Path, value: Any) -> None:
    jobs = small_run()[:2]
    jobs[1]["figures"]["throughput_mibs"]["value"] = value
    with pytest.raises(ResultsError, match=r"run_results\.json, job 1 is damaged"):
        load_run(write_run(tmp_path / "run", jobs))


def test_odd_numbers_of_the_machine_and_times_that_are_none_cost_no_report(tmp_path: Path) -> None:
    odd = {"memory_mib": 10**400, "cpu_cores": 10**400}
    jobs = [{**one, "host": odd, "started_at": "noon", "ended_at": "later"} for one in small_run()[:3]]
    file = write_run(tmp_path / "run", jobs) / "run_results.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "host": odd, "started_at": "yesterday"}))
    run = load_run(file.parent)
    assert "started yesterday" in " ".join(render_table(run).split())
    assert run.results[0].took_s is None


def test_a_record_that_is_none_is_told(tmp_path: Path) -> None:
    (tmp_path / RECORD_FILE).write_text("[]")
    with pytest.raises(ResultsError, match=r"run\.json cannot be read"):
        RunRecord.read(tmp_path)


def test_names_of_directories_command_no_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    absent = str(tmp_path / "no\x1b[31mne")
    assert (recommend([absent]), push([absent, "sink=dynamodb", "sink.table=abc"])) == (2, 1)
    assert "\x1b" not in capsys.readouterr().err
    run = write_run(tmp_path / "run", [job("a", 0, 1.0)], whole=False)
    (run / "\x1b[2J").mkdir()
    (run / "\x1b[2J" / "job.json").write_text("{}")
    assert recommend([str(run)]) == 0
    told = capsys.readouterr().err
    assert r"job \x1b[2J left no job_results.json" in told
    assert "\x1b" not in told


def test_a_text_that_reads_as_something_else_is_quoted_for_hydra() -> None:
    values = [2, "2", True, "true", None, "NULL", 1.5, "1e3", "8MiB", "a/b-c.d", "a,b", "it's", [1, 2]]
    assert [override_text(value) for value in values] == [
        "2", "'2'", "true", "'true'", "null", "'NULL'", "1.5", "'1e3'", "8MiB", "a/b-c.d", "'a,b'",
        r"'it\'s'", "[1, 2]",
    ]  # fmt: skip


def test_names_of_several_lines_are_one_line(tmp_path: Path) -> None:
    odd = {"parameters": {**PARAMETERS, "k": "1\n2"}, "disambiguator": "x\nslow won with 9.00 times the throughput"}
    text = render_table(load_run(write_run(tmp_path / "run", [job("a\n\tb", 0, 1.0, **odd)])), width=400)
    assert r"a\n\tb" in text
    assert r"k=1\n2" in text
    assert not any(line.startswith("slow won") for line in text.splitlines())
