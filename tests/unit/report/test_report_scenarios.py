"""Runs of several scenarios in one report, each with its own columns and words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from report_results import job, small_run, write_run

from bucketbench.report.command import main
from bucketbench.scenarios.listing.figures import FIGURES


def listing_job(client: str, repeat: int, list_s: float) -> dict[str, Any]:
    values = {"list_s": list_s, "names_per_s": 1000 / list_s, "errors": 0, "requests_per_listing": 4}
    figures = {
        name: {"unit": unit, "value": values.get(name), "reason": None if name in values else "left out by the test"}
        for name, unit in FIGURES.units.items()
    }
    parameters = {"target": "local", "names.count": 1000}
    return job(client, repeat, 1.0, scenario="listing", figures=figures, parameters=parameters)


def listing_run() -> list[dict[str, Any]]:
    return [listing_job(c, r, s + r / 100) for r in range(6) for c, s in (("quick", 0.5), ("slow", 2.0))]


@pytest.fixture
def mixed(tmp_path: Path) -> list[str]:
    return [
        str(write_run(tmp_path / "dataset" / "1", small_run())),
        str(write_run(tmp_path / "listing" / "2", listing_run())),
    ]


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(arguments) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def test_two_runs_are_two_sections(mixed: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    out = printed(capsys, *mixed)
    dataset, listing = out.split("listing scenario: ")
    assert dataset.startswith("dataset scenario: 18 jobs of 3 clients")
    assert "MiB/s" in dataset
    assert "fast won with 5.00 times the throughput of slow" in dataset
    assert "names/s" not in dataset
    assert listing.startswith("12 jobs of 2 clients")
    assert "names/s" in listing
    assert "quick won with 3.86 times the speed of slow" in " ".join(listing.split())
    assert "MiB/s" not in listing


def test_jobs_of_two_scenarios_in_one_run_are_two_sections(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write_run(tmp_path / "both", [*small_run(), *listing_run()], whole=False)
    out = printed(capsys, str(run))
    assert out.count(" scenario: ") == 2
    assert "fast won" in out
    assert "quick won" in out


def test_json_is_one_list_of_all_rows(mixed: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    rows = json.loads(printed(capsys, "--json", *mixed))
    assert [(row["scenario"], row["client"]) for row in rows] == [
        ("dataset", "fast"), ("dataset", "slow"), ("dataset", "raw"), ("listing", "quick"), ("listing", "slow"),
    ]  # fmt: skip
    quick = rows[3]
    assert quick["list_s"] == pytest.approx(0.525)
    assert quick["list_s_spread"] == pytest.approx(0.025)
    assert quick["list_s_interval"]["low"] <= 0.525 <= quick["list_s_interval"]["high"]
    assert quick["won"] is True
    assert "throughput_mibs" not in quick
    assert quick["cpu_us_per_name"] is None
    assert quick["cpu_us_per_name_reason"] == "left out by the test"


def test_what_several_runs_were_measured_with_stands_in_each_row(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = []
    for number, word in enumerate(("before", None)):
        versions = {"torchbucket": f"1.{number}", "pycurl": "7.45", "libcurl": "8.1"}
        jobs = [job("a", repeat, 9.0, disambiguator=word, versions=versions) for repeat in range(2)]
        runs.append(str(write_run(tmp_path / f"run{number}", jobs)))
    rows = json.loads(printed(capsys, "--json", *runs))
    told = [[row[name] for name in ("run", "disambiguator", "versions")] for row in rows]
    assert told == [
        ["dataset/run0", "before", {"libcurl": "8.1", "pycurl": "7.45", "torchbucket": "1.0"}],
        ["dataset/run1", None, {"libcurl": "8.1", "pycurl": "7.45", "torchbucket": "1.1"}],
    ]
    assert all(row["commit"] and row["started_at"] for row in rows)
    text = " ".join(printed(capsys, *runs).split())
    assert "; disambiguator before; commit " in text
    assert text.count("disambiguator") == 1
    assert "### dataset/run0 (before)" in printed(capsys, "--markdown", *runs)


def test_markdown_names_the_scenarios_where_there_are_several(
    mixed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert [line for line in printed(capsys, "--markdown", *mixed).splitlines() if line.startswith("#")] == [
        f"### {scenario}/{Path(run).name}" for scenario, run in zip(("dataset", "listing"), mixed, strict=True)
    ]  # fmt: skip
    assert "#" not in printed(capsys, "--markdown", mixed[1])


def test_a_scenario_of_a_newer_version_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write_run(tmp_path / "run", [job("a", 0, 1.0, scenario="teleporting")])
    assert main([str(run)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "there is no scenario 'teleporting'; the scenarios are: dataset, " in err
