"""Invalid figures are never a best one, nor a measure of others; marks are told with their counts in each verdict."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from report_results import small_run, write_run

from bucketbench.advice.command import main as advice_main
from bucketbench.comparing.command import main as compare_main
from bucketbench.report.exports import write_csv
from bucketbench.report.rows import json_rows
from bucketbench.report.runs import Run, load_run
from bucketbench.report.table import render_table

SLEPT = {"rule": "clock_jump", "state": "invalid", "reason": "the machine slept"}
FAR_OFF = {"rule": "network_model", "state": "invalid", "reason": "62% were lost"}
OFF = {"rule": "network_model", "state": "doubtful", "reason": "25% were lost"}
Marked = Mapping[tuple[str, int], Sequence[Mapping[str, str]]]


def run_with(directory: Path, marked: Marked, **changes: Any) -> Path:
    """A run in which some repeats of clients have marks."""
    jobs = []
    for number, one in enumerate(small_run()):
        marks = list(marked.get((one["client"], one["repeat"]), ()))
        states = [mark["state"] for mark in marks]
        state = "invalid" if "invalid" in states else "doubtful" if states else "valid"
        validity = {"state": state, "marks": marks, "unchecked": {"steal": "nothing tells"}}
        jobs.append({**one, "schema_version": 3, "number": number, "validity": validity, **changes})
    return write_run(directory, jobs)


def plain(run: Run) -> str:
    return " ".join(render_table(run).split())


def test_several_rules_at_once_are_told_each_with_its_own_count(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    marked: Marked = {("fast", 0): [SLEPT, FAR_OFF], ("fast", 1): [OFF], ("fast", 2): [FAR_OFF]}
    run = load_run(run_with(tmp_path / "run", marked))
    row = next(row for row in json_rows(run) if row["client"] == "fast")
    told = [(mark["rule"], mark["state"], mark["repeats"]) for mark in row["marks"]]
    assert told == [("clock_jump", "invalid", 1), ("network_model", "invalid", 2), ("network_model", "doubtful", 1)]
    text = plain(run)
    assert "invalid (network_model): fast (2/6)" in text
    assert "doubtful (network_model): fast (1/6)" in text
    before = write_run(tmp_path / "before", small_run())
    assert compare_main([str(before), str(run.directory), "--json"]) == 0
    changes = json.loads(capsys.readouterr().out)["changes"]
    reason = next(one["reason"] for one in changes if one["client"] == "fast")
    assert "invalid in 2 of 6 repeats: the machine slept; 62% were lost" in reason


def test_an_invalid_client_stands_below_the_others_and_nobody_is_the_only_one_that_succeeded(tmp_path: Path) -> None:
    run = load_run(run_with(tmp_path / "run", {("fast", 3): [SLEPT]}))
    rows = json_rows(run)
    assert [row["client"] for row in rows] == ["slow", "fast", "raw"]
    assert "slow is the only contestant that succeeded in all its repeats with valid figures." in plain(run)
    assert "with valid figures" in rows[0]["margin_reason"]


def test_an_invalid_bare_loop_is_no_measure_of_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    marked: Marked = {("raw", 3): [SLEPT]}
    run = load_run(run_with(tmp_path / "run", marked))
    for row in json_rows(run):
        assert row["percent_of_ceiling"] is None
        assert row["percent_of_ceiling_reason"] == "the figures of the bare loop, raw, are invalid"
    assert "bare loop %: n/a: the figures of the bare loop, raw, are invalid" in plain(run)
    before = str(run_with(tmp_path / "before", {}))
    arguments = [before, str(run.directory), "--relative-to", "raw", "--json"]
    assert compare_main(arguments) == 0
    for change in json.loads(capsys.readouterr().out)["changes"]:
        if change["client"] != "raw":
            assert change["ratio"] is None
            assert "raw's figures after are invalid in 1 of 6 repeats: the machine slept" in change["reason"]
    assert compare_main([*arguments, "--allow", "invalid"]) == 0
    (change,) = (one for one in json.loads(capsys.readouterr().out)["changes"] if one["client"] == "fast")
    assert change["ratio"] == pytest.approx(1)
    assert change["doubts"] == ["after of raw, 1 of 6 repeats invalid (clock_jump): the machine slept"]


def test_a_failed_repeat_hides_no_mark(tmp_path: Path) -> None:
    run = load_run(run_with(tmp_path / "run", {("fast", 3): [SLEPT]}))
    fields = json.loads((run.directory / "run_results.json").read_text())
    for one in fields["jobs"]:
        if (one["client"], one["repeat"]) == ("fast", 0):
            one.update(status="failed", reason="killed", validity=None)
    (run.directory / "run_results.json").write_text(json.dumps(fields))
    assert "1/6 failed, 1/6 invalid" in plain(load_run(run.directory))


def test_a_repeat_that_was_not_judged_is_not_taken_for_valid(tmp_path: Path) -> None:
    directory = run_with(tmp_path / "run", {("slow", 1): [SLEPT]})
    fields = json.loads((directory / "run_results.json").read_text())
    for one in fields["jobs"]:
        if one["repeat"] == 0:
            one.update(schema_version=2, validity=None)
    (directory / "run_results.json").write_text(json.dumps(fields))
    rows = {row["client"]: row["validity"] for row in json_rows(load_run(directory))}
    assert rows == {"fast": None, "slow": "invalid", "raw": None}


def test_rules_that_could_not_be_applied_are_in_the_exports(tmp_path: Path) -> None:
    write_csv([load_run(run_with(tmp_path / "run", {}))], tmp_path / "jobs.csv")
    with (tmp_path / "jobs.csv").open(newline="") as file:
        assert {line["validity_unchecked"] for line in csv.DictReader(file)} == {"steal: nothing tells"}


def test_advice_says_which_figures_it_rests_on_are_doubtful(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = str(run_with(tmp_path / "run", {("fast", 0): [OFF]}))
    assert advice_main([run]) == 0
    assert (
        "; doubtful (network_model): fast with num_workers=2 (1/6): 25% were lost"
        in capsys.readouterr().out.splitlines()[1]
    )
    assert advice_main([run, "--json"]) == 0
    (advice,) = json.loads(capsys.readouterr().out)
    assert (advice["best"]["validity"], advice["others"][0]["validity"]) == ("doubtful", "valid")
    assert advice["best"]["marks"][0]["rule"] == "network_model"
