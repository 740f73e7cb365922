"""Results of whoever: what is in their names, messages and numbers stays text, and sentences stay true of them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from report_results import PARAMETERS, job, small_run, write_run

from bucketbench.errors import ResultsError
from bucketbench.records import Operation, OperationKind, Phase
from bucketbench.report import load_run
from bucketbench.report.command import main
from bucketbench.report.html import render_html
from bucketbench.report.markdown import code, escaped
from bucketbench.report.table import render_table
from bucketbench.report.wording import ratio_text
from bucketbench.results.raw import read_raw
from bucketbench.visible import visible

EVIL = "</script>\x1b[31m\u2028[x](javascript:1)|`*_ &lt;\n# \x07\x9b2J\u202e ${x}"
UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def hostile_run() -> list[dict[str, Any]]:
    jobs = small_run()
    for one in jobs:
        one |= {
            "client": one["client"].replace("fast", EVIL),
            "parameters": {**PARAMETERS, "target.bucket": EVIL, EVIL: EVIL, "__proto__": "x"},
            "host": {"cpu_model": EVIL, "cpu_cores": 2, "kernel": EVIL},
            "versions": {EVIL: EVIL},
            "details": {"start_method": EVIL},
            "disambiguator": EVIL,
        }
    jobs[0] |= {"status": "failed", "reason": EVIL}
    return jobs


def test_what_commands_a_terminal_is_shown_and_never_sent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = load_run(write_run(tmp_path / "a\x1b[31mb", hostile_run()))
    assert UNSEEN.search(render_table(run)) is None
    assert r"\x1b[31m" in render_table(run)
    for form in ("--json", "--markdown"):
        assert main([str(run.directory), form]) == 0
        told = capsys.readouterr().out
        assert UNSEEN.search(told) is None
    assert main([str(tmp_path / "no\x1b[31mne")]) == 2
    assert UNSEEN.search(capsys.readouterr().err) is None


def test_a_page_of_hostile_names_is_drawn(tmp_path: Path) -> None:
    page = render_html([load_run(write_run(tmp_path / "run", hostile_run()))])
    assert page.count("<script") == 2 == page.count("</script")
    assert UNSEEN.search(page) is None


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 10**400, "1e999"])
def test_a_number_that_is_none_is_told_as_it_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], value: Any
) -> None:
    parameters = [{**PARAMETERS, "k": 1}, {**PARAMETERS, "k": value}]
    jobs = [job(name, 0, 10.0, parameters=one) for one in parameters for name in ("a", "b")]
    directory = write_run(tmp_path / "run", jobs)
    for file in directory.rglob("*.json"):
        file.write_text(file.read_text().replace('"1e999"', "1e999"))
    assert main([str(directory), "--json"]) == 0

    def refuse(word: str) -> None:
        raise AssertionError(word)

    rows = json.loads(capsys.readouterr().out, parse_constant=refuse)
    assert {str(row["parameters"]["k"])[:3] for row in rows} == {
        "1",
        str(float(value) if value == "1e999" else value)[:3],
    }
    assert main([str(directory), "--markdown"]) == 0


def test_records_may_have_ends_of_lines_in_their_texts(tmp_path: Path) -> None:
    operation = Operation(
        kind=OperationKind.FETCH,
        phase=Phase.MEASURE,
        epoch=0,
        worker=0,
        started_s=0.0,
        ended_s=1.0,
        error="a\u2028b\x85",
    )
    (tmp_path / "operations.jsonl").write_text(json.dumps(operation.to_json(), ensure_ascii=False) + "\n")
    (tmp_path / "usage.jsonl").write_text("")
    assert read_raw(tmp_path, ended=False)[0] == [operation]


def test_a_missing_file_is_named_once(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match=r"operations\.jsonl cannot be read: No such file or directory$"):
        read_raw(tmp_path, ended=True)


def test_text_stands_for_itself_in_markdown() -> None:
    assert escaped("[MiB] [x](y) ~~a~~ &lt; &#1; a & b <c>") == r"[MiB] \[x](y) \~\~a\~\~ \&lt; \&#1; a & b \<c>"
    assert [escaped(text) for text in ("# a", "1. b", "> c", "- d", "-5.0", "two\nlines", "a#1")] == [
        r"\# a", r"1\. b", r"\> c", r"\- d", "-5.0", "two lines", "a#1",
    ]  # fmt: skip
    assert [code(text) for text in ("a=b", "a`b", "``", "two\nlines")] == [
        "`a=b`",
        "``a`b``",
        "``` `` ```",
        "`two lines`",
    ]
    assert visible("é ✓ 日本\t\n") == "é ✓ 日本\t\n"


def test_where_paths_are_told_the_home_directory_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    directory = write_run(tmp_path / "run", small_run(), whole=False)
    (directory / "0" / "job_results.json").write_text("{")
    run = load_run(directory)
    assert any("~/run/0/job_results.json is damaged" in note for note in run.notes)
    assert str(tmp_path) not in render_html([run])


def _without(figure: dict[str, Any], value: float | None) -> dict[str, Any]:
    return {**figure, "value": value, "reason": None if value is not None else "left out by the test"}


@pytest.mark.parametrize(
    ("lacking", "value", "sentence"),
    [
        (
            {"fast"},
            None,
            "No contest: slow is the only contestant that succeeded in all its repeats with a throughput above 0.",
        ),
        ({"fast", "slow"}, 0.0, "No winner: no contestant succeeded in all its repeats with a throughput above 0."),
        (set(), 0.0, "fast won with"),
    ],
)
def test_a_verdict_tells_what_the_others_lack(
    tmp_path: Path, lacking: set[str], value: float | None, sentence: str
) -> None:
    jobs = small_run()
    for one in jobs:
        if one["client"] in lacking:
            one["figures"]["throughput_mibs"] = _without(one["figures"]["throughput_mibs"], value)
    told = " ".join(render_table(load_run(write_run(tmp_path / "run", jobs))).split())
    assert sentence in told


def test_one_invalid_contestant_leaves_the_other_without_a_contest(tmp_path: Path) -> None:
    jobs = [
        {**one, "validity": {"state": "invalid" if one["client"] == "fast" else "valid", "marks": []}}
        for one in small_run()
    ]
    told = " ".join(render_table(load_run(write_run(tmp_path / "run", jobs))).split())
    assert "slow is the only contestant that succeeded in all its repeats with valid figures." in told


def test_a_ratio_near_to_one_does_not_read_as_one() -> None:
    told = [ratio_text(ratio) for ratio in (1, 1.2345, 1.0042, 0.9987, 1.00007, 0.5, 123456.0, 2e9)]
    assert told == ["1.00", "1.23", "1.004", "0.999", "1.0001", "0.50", "123456.00", "2e+09"]
