"""What a history tells of many runs: what changed, by which run, and what is not comparable."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from history_runs import write_history
from page_structure import PageStructure
from report_results import PARAMETERS, job, write_run

from bucketbench.history.command import main
from bucketbench.history.page import render_history
from bucketbench.history.series import arrange_history
from bucketbench.report import load_run


@pytest.fixture(scope="module")
def multirun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("history")
    write_history(directory)
    return directory


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[str, str]:
    assert main(arguments) == 0
    out, err = capsys.readouterr()
    return " ".join(out.split()), err


def found(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main([*arguments, "--json"]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_a_change_is_told_with_its_run_commit_and_versions(multirun: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, err = told(capsys, "--multirun", str(multirun))
    assert err == ""
    assert "quick: throughput_mibs worse since dataset/2026-11-08_10-00-00 (2026-11-08 10:00), 0.807 times" in out
    assert "since dataset/2026-11-07_10-00-00: commit 060606060606 → 070707070707, quickstore 1.2.9 → 1.3.0" in out
    assert "steady: throughput_mibs worse" not in out
    document = found(capsys, "--multirun", str(multirun))
    (group,) = document["groups"]
    quick, steady = group["series"]
    assert (quick["client"], steady["client"]) == ("quick", "steady")
    (change,) = quick["changes"]
    assert change["effect"] == "worse"
    assert change["ratio"] == pytest.approx(0.8, rel=0.03)
    assert change["versions"] == {"quickstore": ["1.2.9", "1.3.0"]}
    assert steady["changes"] == []
    assert [len(one["values"]) for one in quick["runs"]] == [4] * 12
    assert [one["run"] for one in quick["runs"]] == sorted(one["run"] for one in quick["runs"])


def test_few_runs_tell_no_change_and_say_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = write_history(tmp_path, runs=5, drop_at=3)
    out, _ = told(capsys, *map(str, runs))
    assert "quick, throughput_mibs; steady, throughput_mibs: changes n/a: a change is told from 8 runs on, and" in out
    document = found(capsys, *map(str, runs))
    assert all("8 runs" in series["changes_reason"] for series in document["groups"][0]["series"])


@pytest.mark.parametrize(
    ("changes", "allowed"),
    [
        ({"parameters": PARAMETERS | {"network": "slow"}}, "network"),
        ({"host": {"cpu_model": "Slide rule", "cpu_cores": 1}}, "host"),
    ],
)
def test_what_is_not_comparable_is_another_group_unless_allowed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, Any], allowed: str
) -> None:
    write_history(tmp_path, runs=3)
    write_run(
        tmp_path / "dataset" / "2026-12-01_10-00-00",
        [job("quick", 0, 9.0, **changes)],
        started_at="2026-12-01T10:00:00Z",
    )
    groups = found(capsys, "--multirun", str(tmp_path))["groups"]
    assert [len(group["series"][0]["runs"]) for group in groups] == [3, 1]
    (group,) = found(capsys, "--multirun", str(tmp_path), "--allow", allowed)["groups"]
    assert len(group["series"][0]["runs"]) == 4


def test_a_client_that_was_set_up_otherwise_is_another_client(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number, parts in enumerate((8, 8, 16)):
        at = f"2026-11-0{number + 1}T10:00:00Z"
        options = {"options.part_bytes": parts}
        write_run(tmp_path / "dataset" / str(number), [job("a", 0, 1.0, client_options=options)], started_at=at)
    (group,) = found(capsys, "--multirun", str(tmp_path))["groups"]
    assert {one["client"]: len(one["runs"]) for one in group["series"]} == {
        "a (part_bytes=8)": 2,
        "a (part_bytes=16)": 1,
    }


def test_failures_and_broken_runs_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_history(tmp_path, runs=2)
    write_run(tmp_path / "dataset" / "2026-12-01", [job("quick", 0, None)], started_at="2026-12-01T10:00:00Z")
    broken = tmp_path / "dataset" / "2026-12-02"
    broken.mkdir()
    (broken / "run_results.json").write_text("{")
    out, err = told(capsys, "--multirun", str(tmp_path))
    assert "quick: throughput_mibs n/a in dataset/2026-12-01: failed: the measured process was killed by SIGKILL" in out
    assert f"left out: {broken / 'run_results.json'} is damaged" in err
    partial = write_run(tmp_path / "partial", [job("quick", 0, 1.0)], whole=False)
    assert "partial: run_results.json is missing: the sweep was interrupted" in told(capsys, str(partial))[1]
    assert main([str(broken)]) == 2
    assert "is damaged" in capsys.readouterr().err


def test_invalid_repeats_are_no_values(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mark = {"rule": "steal", "state": "invalid", "reason": "others took the CPU"}
    invalid = {"validity": {"state": "invalid", "marks": [mark]}}
    jobs = [job("a", 0, 900.0, **invalid), job("a", 1, 10.0), job("b", 0, 900.0, **invalid)]
    run = write_run(tmp_path / "run", jobs)
    (group,) = found(capsys, str(run))["groups"]
    a, b = (series["runs"][0] for series in group["series"])
    assert (a["values"], a["reason"]) == ([10.0], None)
    assert (b["values"], b["reason"]) == ([], "invalid: others took the CPU")
    assert a["doubts"] == b["doubts"] == {}


def test_doubtful_values_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    marks = [{"rule": rule, "state": "doubtful", "reason": "others ran"} for rule in ("steal", "other_load")]
    doubtful = {"validity": {"state": "doubtful", "marks": marks}}
    run = write_run(tmp_path / "run", [job("a", 0, 9.0, **doubtful), job("a", 1, 10.0), job("b", 0, 9.0)])
    (group,) = found(capsys, str(run))["groups"]
    a, b = (series["runs"][0] for series in group["series"])
    assert (len(a["values"]), a["doubts"], b["doubts"]) == (2, {"steal": 1, "other_load": 1}, {})
    assert "- a: doubtful in 1 run, by steal, other_load: dataset/run" in " ".join(told(capsys, str(run))[0].split())


def test_relative_to_another_client_a_machine_that_got_slower_is_no_change(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(10):
        machine = 0.5 if number >= 5 else 1.0
        jobs = [
            job(client, repeat, speed * machine * (1 + 0.01 * ((repeat + number) % 3)))
            for repeat in range(3)
            for client, speed in (("a", 50.0 + number % 2), ("loop", 100.0))
        ]
        write_run(tmp_path / "dataset" / f"{number:02}", jobs, started_at=f"2026-11-{number + 1:02}T10:00:00Z")
    alone = found(capsys, "--multirun", str(tmp_path), "--client", "a")["groups"][0]["series"]
    assert [change["run"] for change in alone[0]["changes"]] == ["dataset/05"]
    (beside,) = found(capsys, "--multirun", str(tmp_path), "--relative-to", "loop")["groups"][0]["series"]
    assert (beside["client"], beside["unit"], beside["changes"]) == ("a", "times loop", [])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--figure", "speed"], "there is no figure 'speed'; dataset has"),
        (["--client", "quick,absent"], "none of the runs has such a client as 'absent'; they have quick, steady"),
        (["--relative-to", "absent"], "none of the runs of dataset has a client 'absent'; they have quick, steady"),
        (["--scenario", "listing"], "none is left: they are of other scenarios"),
    ],
)
def test_what_cannot_be_told_is_refused_in_one_line(
    multirun: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(["--multirun", str(multirun), *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert err.count("\n") == 1


def test_two_runs_of_one_name_are_refused(multirun: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = next((multirun / "dataset").iterdir())
    other = tmp_path / run.name
    shutil.copytree(run, other)
    assert main([str(run), str(other)]) == 2
    assert f"two runs are called dataset/{run.name}" in capsys.readouterr().err


def test_the_page_has_changes_charts_and_runs(multirun: Path) -> None:
    runs = [load_run(path) for path in sorted((multirun / "dataset").iterdir())]
    page = render_history(arrange_history(runs), ["left out: <b>one</b>"])
    structure = PageStructure(page)
    assert "left out: <b>one</b>" in structure.text
    assert "quick: throughput_mibs worse since dataset/2026-11-08_10-00-00" in structure.text
    assert "quickstore 1.2.9 → 1.3.0" in structure.text
    names = [name for name, _ in structure.elements]
    assert names.count("svg") == 1
    assert names.count("tr") == 1 + 12
    assert "b" not in names
    links = [
        value for _, attributes in structure.elements for name, value in attributes.items() if name in ("href", "src")
    ]
    assert all(value is not None and value.startswith(("#", "data:")) for value in links)
    assert render_history(arrange_history(runs), ["left out: <b>one</b>"]) == page


def test_the_command_writes_the_page_and_markdown(
    multirun: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "history.html"
    out, _ = told(capsys, "--multirun", str(multirun), "--markdown", "--html", str(page))
    assert page.read_text().startswith("<!doctype html>")
    assert "| **quick** | **throughput\\_mibs [MiB/s]** | **12** |" in out


def test_a_run_in_another_unit_is_another_series(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number, unit in enumerate(("MB/s", "MB/s", "MiB/s")):
        one = job("a", 0, 100.0)
        one["figures"]["throughput_mibs"]["unit"] = unit
        write_run(tmp_path / "dataset" / str(number), [one], started_at=f"2026-11-0{number + 1}T10:00:00Z")
    (group,) = found(capsys, "--multirun", str(tmp_path))["groups"]
    assert {one["unit"]: len(one["runs"]) for one in group["series"]} == {"MB/s": 2, "MiB/s": 1}
    page = render_history(arrange_history([load_run(path) for path in sorted((tmp_path / "dataset").iterdir())]), [])
    assert [name for name, _ in PageStructure(page).elements].count("svg") == 2


def test_several_values_of_one_run_are_not_one_measurement(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    jobs = [
        job("a", 0, speed, parameters=PARAMETERS | {"network": name}) for name, speed in (("near", 9.0), ("far", 1.0))
    ]
    run = write_run(tmp_path / "run", jobs)
    assert len(found(capsys, str(run))["groups"]) == 2
    assert main([str(run), "--allow", "network"]) == 2
    assert "dataset/run has a with several values of what may differ (network)" in capsys.readouterr().err


def test_a_run_of_an_unknown_scenario_is_left_out_where_all_are_taken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_history(tmp_path, runs=2)
    mine = write_run(tmp_path / "mine" / "2026-12-01", [job("a", 0, 1.0, scenario="no_such_one")])
    assert f"left out: {mine}: there is no scenario 'no_such_one'" in told(capsys, "--multirun", str(tmp_path))[1]
    assert main([str(mine)]) == 2


def test_missing_repeats_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write_run(tmp_path / "run", [job("a", 0, 9.0), job("a", 1, None), job("a", 2, 9.0)])
    remark = "1 of 3 repeats without a value: failed: the measured process was killed by SIGKILL"
    line = f"a: throughput_mibs of fewer repeats in 1 of 1 run, at last in dataset/run: {remark}"
    assert line in told(capsys, str(run))[0]
    assert found(capsys, str(run))["groups"][0]["series"][0]["runs"][0]["remark"] == remark
    assert line in PageStructure(render_history(arrange_history([load_run(run)]), [])).text


def test_times_are_in_utc(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(tmp_path / "run", [job("a", 0, 9.0)], started_at="2026-11-01T01:00:00+02:00")
    (series,) = found(capsys, str(tmp_path / "run"))["groups"][0]["series"]
    assert series["runs"][0]["started_at"] == "2026-10-31T23:00:00+00:00"
    early = write_run(tmp_path / "early", [job("a", 0, 9.0)], started_at="0001-01-01T00:00:00+02:00")
    assert main([str(early)]) == 2
    assert "does not tell when it began" in capsys.readouterr().err
