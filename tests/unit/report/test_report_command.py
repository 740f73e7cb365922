"""``bucketbench report`` on small runs that were written by hand."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from report_results import PARAMETERS, job, small_run, write_run

from bucketbench.report import load_run, render_table
from bucketbench.report.command import main
from bucketbench.results import SCHEMA_VERSION


def report(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """What the command prints, having succeeded."""
    assert main([str(argument) for argument in arguments]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    return printed.out


def refusal(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """What the command says, having refused."""
    assert main([str(argument) for argument in arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "Traceback" not in printed.err
    return printed.err


def words(line: str) -> list[str]:
    """The cells of a line of the table."""
    return re.split(r"\s{2,}", line.strip())


def test_the_table_has_a_row_a_client_and_says_who_won(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = write_run(tmp_path / "dataset" / "2026-11-02_10-00-00", small_run())
    text = report(capsys, run)
    rows = [words(line) for line in text.splitlines()]
    assert ["fast", "102 ± 2.00", "50.0", "1,020", "3.25", "250", "1.50", "48.0", "0", "ok"] in rows
    assert ["slow", "20.4 ± 0.40", "10.0", "204", "3.25", "250", "1.50", "48.0", "0", "ok"] in rows
    assert ["raw (bare loop)", "204 ± 4.00", "100", "2,040", "3.25", "250", "1.50", "48.0", "0", "ok"] in rows
    flowing = " ".join(text.split())
    assert (
        "fast won with 5.00 times the throughput of slow (4.95 to 5.05; 96.9% confidence, 6 paired repeats)." in flowing
    )
    assert "18 jobs of 3 clients, 0 failed" in flowing
    assert "commit 0123456789ab-dirty; 2 cores of Abacus, 8.0 GiB memory" in flowing
    assert "target=local network=regional dataloader.num_workers=2" in flowing
    assert 80 < max(len(line) for line in text.splitlines()) <= 120
    monkeypatch.setenv("COLUMNS", "60")
    assert max(len(line) for line in report(capsys, run).splitlines()) <= 60


def test_the_order_is_contestants_by_throughput_then_failed_then_references(tmp_path: Path) -> None:
    jobs = [job("raw", 0, 999.0), job("dead", 0, None), job("slow", 0, 1.0), job("fast", 0, 2.0)]
    text = render_table(load_run(write_run(tmp_path / "run", jobs)))
    clients = [words(line)[0] for line in text.splitlines() if words(line)[-1] in ("ok", "failed")]
    assert clients == ["fast", "slow", "dead", "raw (bare loop)"]


def test_json_has_the_promised_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write_run(tmp_path / "run", small_run())
    rows = {row["client"]: row for row in json.loads(report(capsys, run, "--json"))}
    promised = {
        "scenario": "dataset",
        "client": "fast",
        "parameters": PARAMETERS,
        "repeats": 6,
        "throughput_mibs": 102.0,
        "samples_per_s": 1020.0,
        "throughput_mibs_spread": 2.0,
        "latency_p50_s": 0.0123,
        "latency_p95_s": 0.25,
        "cpu_s_per_gib": 1.5,
        "peak_rss_mib": 512.0,
        "errors": 0,
        "status": "ok",
    }
    assert {name: rows["fast"][name] for name in promised} == promised
    assert rows["fast"]["won"] is True
    assert rows["fast"]["margin"]["over"] == "slow"
    assert rows["fast"]["margin"]["ratio"] == pytest.approx(5)
    assert rows["fast"]["margin"]["repeats"] == 6
    assert rows["fast"]["margin_over_other_library"] == rows["fast"]["margin"]
    assert rows["fast"]["percent_of_ceiling"] == pytest.approx(50)
    assert rows["slow"]["won"] is False
    assert rows["raw"]["role"] == "ceiling"


def test_json_gives_null_with_the_reason_and_never_zero(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write_run(tmp_path / "run", [job("dead", 0, None), job("dead", 1, None), job("alone", 0, 5.0)])
    rows = {row["client"]: row for row in json.loads(report(capsys, run, "--json"))}
    dead = rows["dead"]
    assert (dead["status"], dead["repeats"], dead["errors"]) == ("failed", 2, 6)
    assert dead["failures"] == ["the measured process was killed by SIGKILL"] * 2
    for name in ("throughput_mibs", "samples_per_s", "latency_p50_s", "latency_p95_s", "cpu_s_per_gib", "peak_rss_mib"):
        assert dead[name] is None
        assert dead[f"{name}_reason"] == "no repeat succeeded"
    assert rows["alone"]["throughput_mibs_spread_reason"] == "it needs 2 repeats, 1 succeeded"
    for row in rows.values():
        assert {name for name, value in row.items() if value is None} == {
            name.removesuffix("_reason") for name in row if name.endswith("_reason")
        }


def test_one_row_a_client_and_parameter_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sweep = [
        {**results, "parameters": {**PARAMETERS, "dataloader.num_workers": workers}}
        for workers in (1, 2)
        for results in small_run()
    ]
    run = write_run(tmp_path / "run", sweep)
    rows = json.loads(report(capsys, run, "--json"))
    assert len(rows) == 6
    assert {row["parameters"]["dataloader.num_workers"] for row in rows} == {1, 2}
    text = report(capsys, run)
    assert text.count("fast won with") == 2
    headings = [line.strip() for line in text.splitlines() if line.startswith("dataloader.num_workers=")]
    assert headings == ["dataloader.num_workers=1", "dataloader.num_workers=2"]


def styled(client: str, library: str, style: str, throughput_mibs: float, repeat: int) -> dict[str, Any]:
    """A job of a map or iterable data set of a library; each client's repeats vary in their own way."""
    config = {"client": {"name": client, "role": "contestant", "requires": [library]}}
    speed = throughput_mibs * (1 + (len(client) * repeat) % 5 / 100)
    return job(client, repeat, speed, config=config, details={"style": style, "start_method": "fork"})


STYLED = (
    ("our-stream", "ours", "iterable", 300.0),
    ("their-stream", "theirs", "iterable", 20.0),
    ("our-map", "ours", "map", 190.0),
    ("our-map-joined", "ours", "map", 150.0),
    ("their-map", "theirs", "map", 10.0),
    ("other-map", "other", "map", 100.0),
)


def test_map_is_compared_with_map_and_stream_with_stream_and_with_the_best_of_another_library(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = write_run(tmp_path / "run", [styled(*client, repeat) for repeat in range(6) for client in STYLED])
    text = " ".join(report(capsys, run).split())
    assert re.search(r"iterable: our-stream won with 14\.\d+ times the throughput of their-stream \([^)]*\)\.", text)
    assert re.search(
        r"map: our-map won with 1\.2\d times the throughput of our-map-joined \([^)]*\), "
        r"and 1\.[89]\d times that of other-map \([^)]*96\.9% confidence, 6 paired repeats\)\.",
        text,
    )
    rows = {row["client"]: row for row in json.loads(report(capsys, run, "--json"))}
    assert {client for client, row in rows.items() if row["won"]} == {"our-stream", "our-map"}
    assert rows["our-map"]["margin"]["over"] == "our-map-joined"
    assert rows["our-map"]["margin_over_other_library"]["over"] == "other-map"
    assert rows["our-stream"]["margin"]["over"] == "their-stream"
    assert rows["their-map"]["margin_reason"] == "only the first of the contestants of its style has a margin"
    assert rows["our-map"]["library"] == "ours"
    assert rows["our-map"]["details"] == {"style": "map", "start_method": "fork"}


def test_a_client_that_failed_before_its_style_was_known_is_in_no_contest_of_its_own(tmp_path: Path) -> None:
    jobs = [styled(*client, repeat) for repeat in range(6) for client in STYLED]
    jobs += [job("dead", repeat, None) for repeat in range(6)]
    text = " ".join(render_table(load_run(write_run(tmp_path / "run", jobs))).split())
    assert "dead: 6 of 6 repeats failed" in text
    assert "No winner" not in text


def test_markdown_has_the_rows_with_the_winner_in_bold(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = report(capsys, write_run(tmp_path / "run", small_run()), "--markdown")
    assert "| **fast** | **102 ± 2.00** | **50.0** |" in text
    assert "| slow | 20.4 ± 0.40 | 10.0 |" in text
    assert "fast won with 5.00 times" in text


def test_markup_in_names_and_reasons_is_text(tmp_path: Path) -> None:
    jobs = [job("[red]odd", 0, 1.0), job("dead", 0, None, reason="[bold]x[/bold] [/nothing]")]
    text = render_table(load_run(write_run(tmp_path / "run", jobs)))
    assert "[red]odd" in text
    assert "[bold]x[/bold] [/nothing]" in text


def test_a_partly_failed_client_is_told_and_cannot_win(tmp_path: Path) -> None:
    jobs = [*small_run(), *(job("flaky", repeat, None if repeat == 2 else 500.0) for repeat in range(6))]
    text = render_table(load_run(write_run(tmp_path / "run", jobs)))
    flowing = " ".join(text.split())
    assert "fast won with" in flowing
    assert "flaky: 1 of 6 repeats failed: the measured process was killed by SIGKILL" in flowing
    assert "flaky: takes no part in the contest" in flowing
    assert any(words(line)[-1] == "1/6 failed" for line in text.splitlines())


@pytest.mark.parametrize(
    ("jobs", "words_of_it"),
    [
        (
            [job("a", 0, 9.0), job("b", 0, 1.0)],
            "(undecided, as a statement at 95% confidence needs 6 repeats, got 1: sweep 'repeat=range(6)').",
        ),
        ([job("a", 0, 9.0), job("raw", 0, 10.0)], "No contest: a is the only contestant"),
        ([job("a", 0, None)], "No winner: no contestant succeeded"),
        (
            [job("a", n, 10.0 + n) for n in range(6)] + [job("b", n, 14.0 - n) for n in range(6)],
            "Undecided: a had 1.09 times the throughput of b (0.71 to 1.67, undecided since it includes 1; 96.9% ",
        ),
    ],
)
def test_no_winner_is_said_with_the_reason(tmp_path: Path, jobs: list[dict[str, Any]], words_of_it: str) -> None:
    text = render_table(load_run(write_run(tmp_path / "run", jobs)))
    assert words_of_it in " ".join(text.split())


def test_the_newest_run_of_any_scenario_is_the_default(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_run(tmp_path / "multirun" / "listing" / "2026-11-03_08-00-00", [job("newest", 0, 1.0)], whole=False)
    write_run(tmp_path / "multirun" / "dataset" / "2026-11-02_10-00-00", [job("older", 0, 1.0)])
    (tmp_path / "multirun" / "dataset" / "2026-11-04_10-00-00").mkdir()  # started, and nothing in it yet
    monkeypatch.chdir(tmp_path)
    assert "newest" in report(capsys)
    assert "newest" in report(capsys, "--multirun", tmp_path / "multirun")


def test_an_interrupted_sweep_is_read_from_its_jobs(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", small_run(), whole=False)
    (run / "18").mkdir()
    (run / "18" / "job.json").write_text("{}")
    (run / "3" / "job_results.json").write_text('{"schema_version": 1, "scena')
    text = " ".join(render_table(load_run(run)).split())
    assert "run_results.json is missing" in text
    assert "job 18 left no job_results.json and is not in the table" in text
    assert "job 3 is not in the table" in text
    assert "17 jobs of 3 clients" in text


@pytest.mark.parametrize(
    ("changes", "note"),
    [
        ({"interrupted": True}, "the sweep was interrupted: the results of 18 of 18 jobs are there"),
        ({"ended_at": None, "jobs_planned": 40}, "still runs: the results of 18 of 40 jobs are there"),
    ],
)
def test_an_incomplete_run_says_so(tmp_path: Path, changes: dict[str, Any], note: str) -> None:
    run = write_run(tmp_path / "run", small_run())
    file = run / "run_results.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))
    assert note in " ".join(render_table(load_run(file)).split())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is damaged, it is not whole JSON"),
        (b'{"schema_version": 1, "jobs": [', "is damaged, it is not whole JSON"),
        (b"\xff\xfe\x00", "is damaged, it is not whole JSON"),
        (b"[" * 100_000, "is damaged, it is not whole JSON"),
        (b"[]", "expected an object, got list"),
        (b"{}", "schema_version is None"),
        (b'{"schema_version": 99}', f"has schema version 99, and this bucketbench reads up to {SCHEMA_VERSION}: "),
        (b'{"schema_version": 1}', "jobs is missing"),
        (b'{"schema_version": 1, "jobs": []}', "has no job"),
        (b'{"schema_version": 1, "jobs": {}}', "jobs is of type dict, expected list"),
        (
            b'{"schema_version": 1, "jobs": [3], "scenario": "dataset"}',
            "job 0 is damaged: Expected `object`",
        ),
    ],
)
def test_a_damaged_file_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes, message: str
) -> None:
    file = tmp_path / "run_results.json"
    file.write_bytes(content)
    said = refusal(capsys, file)
    assert message in said
    assert str(file) in said


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"status": "fine"}, "Invalid enum value 'fine' - at `$.status`"),
        ({"client": None}, "Expected `str`, got `null` - at `$.client`"),
        ({"repeat": "0"}, "Expected `int`, got `str` - at `$.repeat`"),
        ({"config": {"client": {"role": "judge"}}}, "role is 'judge', expected contestant or reference or ceiling"),
        ({"figures": {"cpu_s": 3}}, "Expected `object`, got `int` - at `$.figures[...]`"),
        (
            {"figures": {"cpu_s": {"unit": "s", "value": "3"}}},
            "Expected `float | null`, got `str`",
        ),
        ({"figures": {"cpu_s": {"unit": "s", "value": float("nan")}}}, "a figure's value is a finite number, got nan"),
        ({"figures": {"cpu_s": {"unit": "s", "value": 10**400}}}, "Number out of range - at `$.figures[...].value`"),
        ({"figures": {"cpu_s": {"unit": "s"}}}, "either a value or a reason"),
        ({"repeat": 1}, "repeat 1 of client 'fast' is there more than once"),
    ],
)
def test_a_damaged_job_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, Any], message: str
) -> None:
    jobs = [job("fast", 0, 1.0) | changes, job("fast", 1, 1.0), job("slow", 0, 1.0)]
    assert message in refusal(capsys, write_run(tmp_path / "run", jobs))


def test_no_run_is_said_with_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = refusal(capsys, "--multirun", tmp_path / "multirun")
    assert "run ./utils/run_dataset_benchmarks.sh first" in said
    assert "there is no run at" in refusal(capsys, tmp_path / "absent")
    assert "holds no results to show" in refusal(capsys, tmp_path)


def test_an_unknown_option_is_refused_without_a_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    assert "unrecognized arguments: --colour" in refusal(capsys, "--colour")
