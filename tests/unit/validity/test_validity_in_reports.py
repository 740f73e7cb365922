"""A breach that a job's records have is in its JSON, the table, the page, the exports, and keeps it from winning."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from composition import points_of_scenario
from planted_jobs import SERVER, evidence, with_samples, write_job
from report_results import job, small_run, write_run

from bucketbench.comparing.command import main as compare_main
from bucketbench.report.command import main as report_main
from bucketbench.report.derivation import derive_again
from bucketbench.report.exports import write_csv
from bucketbench.report.html import render_html
from bucketbench.report.markdown import render_markdown
from bucketbench.report.rows import json_rows
from bucketbench.report.runs import load_run
from bucketbench.report.table import render_table
from bucketbench.results import schema
from bucketbench.results.job import job_result

SLEPT = with_samples(evidence(), wall_clock_s=lambda one: 1.8e9 + one.at_s + (60 if one.at_s > 10.5 else 0))
HOST = {
    "system": "Linux", "kernel": "6.1", "machine": "x86_64", "cpu_model": "A", "cpu_cores": 2, "memory_mib": 8192,
    "cloud": None, "instance_type": None, "region": None, "zone": None, "image_id": None, "cloud_reason": "none found",
}  # fmt: skip
REASON = "the time of day moved by 60.00 s"


def test_a_planted_breach_reaches_the_results_and_their_schema(tmp_path: Path) -> None:
    (settings,) = points_of_scenario("dataset", "client=boto3", "repeat=0")
    for found, state, rules in (
        (evidence(), "valid", []),
        (SLEPT, "invalid", ["clock_jump"]),
        (replace(evidence(), server=replace(SERVER, warnings=1, lost_s=0.2)), "doubtful", ["network_model"]),
    ):
        write_job(tmp_path, found)
        told = job_result(
            tmp_path, settings=settings, number=0, reason="", started_at="2026-01-01T00:00:00+00:00", host=HOST,
            commit=None, objects_left=0, secrets=(),
        )  # fmt: skip
        told.write(tmp_path)
        fields = json.loads((tmp_path / "job_results.json").read_text())
        jsonschema.validate(fields, schema("job_results"))
        assert fields["validity"]["state"] == state
        assert [mark["rule"] for mark in fields["validity"]["marks"]] == rules
        assert (derive_again(load_run(tmp_path)).results[0].validity) == told.validity, "from the records alone"


def marked_run(directory: Path, state: str, *, repeats: int = 2, client: str = "fast") -> Path:
    """A run in which some repeats of a client have a mark."""
    rule = {"invalid": "clock_jump", "doubtful": "steal"}[state]
    marks = [{"rule": rule, "state": state, "reason": REASON}]
    jobs = []
    for number, one in enumerate(small_run()):
        is_marked = one["client"] == client and one["repeat"] < repeats
        validity = {"state": state if is_marked else "valid", "marks": marks if is_marked else [], "unchecked": {}}
        jobs.append({**one, "schema_version": 3, "number": number, "validity": validity})
    return write_run(directory, jobs)


def test_an_invalid_client_does_not_win_and_every_form_says_why(tmp_path: Path) -> None:
    run = load_run(marked_run(tmp_path / "run", "invalid"))
    row = next(row for row in json_rows(run) if row["client"] == "fast")
    assert (row["validity"], row["won"]) == ("invalid", False)
    assert row["marks"] == [{"rule": "clock_jump", "state": "invalid", "reason": REASON, "repeats": 2}]
    for text in (render_table(run), render_markdown(run)):
        plain = " ".join(text.replace("\\", "").split())
        assert "2/6 invalid" in plain
        assert f"invalid (clock_jump): fast (2/6): such as {REASON}" in plain
        assert "fast: takes no part in the contest, since its figures are invalid" in plain
        assert "No contest: slow is the only contestant" in plain
    page = " ".join(re.sub("<[^>]+>", " ", render_html([run])).split())
    assert "invalid: clock jump" in page
    assert REASON in page
    assert "2/6 invalid" in page
    write_csv([run], tmp_path / "jobs.csv")
    with (tmp_path / "jobs.csv").open(newline="") as file:
        told = [
            (line["validity"], line["validity_reason"]) for line in csv.DictReader(file) if line["client"] == "fast"
        ]
    assert told == [("invalid", f"invalid (clock_jump): {REASON}")] * 2 + [("valid", "")] * 4


def test_a_doubtful_client_may_win_and_the_verdict_says_that_it_is(tmp_path: Path) -> None:
    run = load_run(marked_run(tmp_path / "run", "doubtful", repeats=6))
    text = " ".join(render_table(run).split())
    assert "fast won with" in text
    assert "; the figures of fast are doubtful." in text
    assert f"doubtful (steal): fast (6/6): such as {REASON}" in text


def test_results_of_older_versions_are_not_taken_for_valid(tmp_path: Path) -> None:
    (row,) = json_rows(load_run(write_run(tmp_path / "run", [job("fast", 0, 1.0)])))
    assert row["validity"] is None
    assert "did not judge it" in row["validity_reason"]


def test_compare_refuses_invalid_figures_unless_they_are_allowed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = str(write_run(tmp_path / "before", small_run()))
    after = str(marked_run(tmp_path / "after", "invalid"))

    def change(*options: str) -> dict[str, Any]:
        assert compare_main([before, after, "--json", *options]) == 0
        told = json.loads(capsys.readouterr().out)["changes"]
        found: dict[str, Any] = next(one for one in told if one["client"] == "fast")
        return found

    refused = change()
    assert (refused["effect"], refused["ratio"]) == ("n/a", None)
    assert f"figures after are invalid in 2 of 6 repeats: {REASON}" in refused["reason"]
    allowed = change("--allow", "invalid")
    assert allowed["ratio"] == pytest.approx(1)
    assert allowed["doubts"] == [f"after, 2 of 6 repeats invalid (clock_jump): {REASON}"]
    assert compare_main([before, after]) == 0
    assert "--allow invalid compares it all the same" in " ".join(capsys.readouterr().out.split())


def test_the_report_command_prints_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert report_main([str(marked_run(tmp_path / "run", "doubtful")), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {row["client"]: row["validity"] for row in rows} == {"fast": "doubtful", "slow": "valid", "raw": "valid"}
