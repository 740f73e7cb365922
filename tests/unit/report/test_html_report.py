"""The page of a run: what it says, that it asks for nothing, and that text of results stays text."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from page_structure import PageStructure
from recorded_runs import recorded_run, sweep_jobs
from report_results import job, small_run, write_run

from bucketbench.errors import UsageError
from bucketbench.report import load_run
from bucketbench.report.command import main
from bucketbench.report.html import render_html, write_html

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&{{ 7177*9323 }}-->]]>"
NO_NUMBER = re.compile(r"\b(NaN|nan|Infinity|undefined|None)\b")


def page_of(run: Path) -> PageStructure:
    return PageStructure(render_html([load_run(run)]))


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A run over two numbers of workers, a job of which has failed and one of which is not there."""
    jobs = sweep_jobs()
    jobs[1] = {**jobs[1], "status": "failed", "reason": "killed by SIGKILL"}
    run = recorded_run(tmp_path_factory.mktemp("swept") / "2026-11-02_10-00-00", jobs[:-1])
    return render_html([load_run(run)])


def test_it_says_who_won_with_ratio_interval_and_repeats(swept: str) -> None:
    page = PageStructure(swept)
    assert re.search(
        r"quick won with 1\.\d\d times the throughput of steady "
        r"\(1\.\d\d to 1\.\d\d; 96\.9% confidence, 6 paired repeats\)\.",
        page.text,
    )
    assert "dataset: 35 jobs of 3 clients, 1 failed" in page.text


def test_every_part_is_there(swept: str) -> None:
    text = PageStructure(swept).text
    for part in (
        "MiB/s more is better; median of 5 to 6 repeats",
        "MiB/s in percent of the bare loop",
        "fetch of a batch from a map data set, ms",
        "fetch of a batch from a map data set: MiB/s over time a line a repeat, in segments of 1 s",
        "memory, MiB",
        "CPU s/GiB",
        "What the server saw",
        "MiB/s over dataloader.num_workers",
        "Failed and missing",
        "killed by SIGKILL",
        "raw with dataloader.num_workers=2: 5 of 6 repeats",
        "bucketbench run dataset client=fast,slow",
        "0123456789abcdef-dirty",
        "quick 1.2.3",
        "Abacus",
    ):
        assert part in text, part


def test_a_cell_of_a_sweep_is_marked_with_the_reason(swept: str) -> None:
    assert re.search(
        r'<td class="number" title="killed by SIGKILL">[\d.]+ <span class="mark">1/6 failed</span></td>', swept
    )


def test_rows_that_differ_in_a_parameter_are_said_not_to_be_comparable(swept: str, tmp_path: Path) -> None:
    assert "rows that differ in dataloader.num_workers measure different work" in PageStructure(swept).text
    alone = page_of(write_run(tmp_path / "one", small_run()))
    assert "Not comparable" not in alone.text


def test_jobs_of_two_machines_or_commits_are_said_not_to_be_comparable(tmp_path: Path) -> None:
    jobs = small_run()
    jobs[3] = {**jobs[3], "host": {"cpu_model": "Difference Engine", "cpu_cores": 2}, "commit": "fedcba"}
    text = page_of(write_run(tmp_path / "two", jobs)).text
    assert "machine (cpu_model): Abacus, Difference Engine" in text
    assert "commit: 0123456789abcdef-dirty, fedcba" in text


def test_two_versions_of_a_package_are_said_where_one_client_was_measured_with_both(tmp_path: Path) -> None:
    told = {"slow": ["1.0", "1.0"], "fast": ["2.0", "2.1"]}
    jobs = [
        job(client, repeat, 5.0 + repeat, versions={"python": "3.11", "library": versions[repeat]})
        for client, versions in told.items()
        for repeat in range(2)
    ]
    text = page_of(write_run(tmp_path / "run", jobs)).text
    assert "differ between the jobs: fast: version (library): 2.0, 2.1" in text


def test_it_asks_for_nothing_and_runs_nothing_but_its_own(swept: str) -> None:
    page = PageStructure(swept)
    loading = {"src", "srcset", "action", "formaction", "data", "poster", "background", "ping", "style"}
    for name, attributes in page.elements:
        assert loading & attributes.keys() == set(), (name, attributes)
        assert not [key for key in attributes if key.startswith("on")], (name, attributes)
        link = attributes.get("href") or attributes.get("xlink:href") or "#"
        assert link.startswith("#") or link == "data:,", (name, link)
    assert page.texts["style"]
    assert "url(" not in "".join(page.texts["style"])
    assert "@import" not in "".join(page.texts["style"])
    (policy,) = [
        str(meta["content"]) for meta in page.named("meta") if meta.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    for text in (*page.texts["style"], page.texts["script"][1]):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy


def test_no_two_parts_have_the_same_id_and_every_link_leads_somewhere(swept: str) -> None:
    page = PageStructure(swept)
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    targets = [str(link["href"])[1:] for link in page.named("a")]
    assert targets
    assert set(targets) <= set(ids)


def hostile_copy(value: Any, text: str) -> Any:
    """The value with every text in it replaced, but for those that the reader of results tells apart by."""
    if isinstance(value, dict):
        kept = {"scenario", "status", "role", "unit", "value", "client", "schema_version", "state"}
        return {key: item if key in kept else hostile_copy(item, text) for key, item in value.items()}
    if isinstance(value, list):
        return [hostile_copy(item, text) for item in value]
    return text if isinstance(value, str) else value


def hostile_jobs(text: str) -> list[dict[str, Any]]:
    jobs = []
    for client in ("first", "second"):
        for repeat in range(2):
            made = sweep_jobs(workers=(1,))[0] | {"repeat": repeat, "started_at": None}
            made = hostile_copy(made, text)
            made["client"] = f"{client} {text}"
            made["parameters"] = {f"key {text}": text, "dataloader.num_workers": 1 + repeat % 2}
            made["repeat"] = 0
            made["details"] = {f"detail {text}": text}
            made["versions"] = {f"package {text}": text}
            made["host"] = {"cpu_model": text, "system": text}
            jobs.append(made)
    jobs.append({**jobs[-1], "repeat": 1, "status": "failed", "reason": text})
    return jobs


def hostile_page(directory: Path, text: str) -> str:
    run = write_run(directory / "run", hostile_jobs(text))
    file = run / "run_results.json"
    changes = {"command": [text], "commit": text, "host": {"cpu_model": text}, "ended_at": text, "started_at": text}
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))
    return render_html([load_run(run)])


def test_text_of_results_is_text(tmp_path: Path) -> None:
    harmless, hostile = (hostile_page(tmp_path / name, text) for name, text in (("a", "plain"), ("b", HOSTILE)))
    assert HOSTILE not in hostile
    expected, found = PageStructure(harmless), PageStructure(hostile)
    assert found.outside == expected.outside
    assert {name for name, _ in found.elements} == {name for name, _ in expected.elements}
    assert not [key for _, attributes in found.elements for key in attributes if key.startswith("on")]
    assert found.texts["script"][1:] == expected.texts["script"][1:]
    assert str(7177 * 9323) not in found.text
    assert found.text.count(" ".join(HOSTILE.split())) > 20
    keys = next(iter(found.data["rows"].values())) | found.data["shared"]
    assert keys[f"key {HOSTILE}"] == HOSTILE
    assert keys["client"].endswith(HOSTILE)


@pytest.mark.parametrize("repeats", [1, 2, 6])
def test_what_cannot_be_told_is_na_with_the_reason(tmp_path: Path, repeats: int) -> None:
    jobs = [job(client, repeat, 5.0) for repeat in range(repeats) for client in ("a", "b")]
    run = write_run(tmp_path / "run", jobs)
    (tmp_path / "elsewhere").mkdir()
    page = page_of((run / "run_results.json").rename(tmp_path / "elsewhere" / "run_results.json"))
    assert NO_NUMBER.search(page.text) is None
    assert "slower" not in page.text
    assert "Undecided: a had 1.00 times the throughput of b" in page.text
    reason = f"needs 6 repeats, got {repeats}" if repeats < 6 else "all 6 repeats gave the same value"
    assert reason in page.text
    assert "latency_p99_s: n/a: left out by the test" in page.text
    assert "no raw records lie beside the results" in page.text


def test_a_run_of_failures_is_a_page(tmp_path: Path) -> None:
    page = page_of(write_run(tmp_path / "run", [job("dead", 0, None), job("gone", 0, None)]))
    assert "No winner: no contestant succeeded in all its repeats." in page.text
    assert page.named("svg") == []
    assert page.text.count("the measured process was killed by SIGKILL") >= 2
    assert NO_NUMBER.search(page.text) is None


def test_damaged_records_are_told_and_cost_nothing_else(tmp_path: Path) -> None:
    run = recorded_run(tmp_path / "run", sweep_jobs(workers=(1,)))
    (run / "0" / "operations.jsonl").write_text("{")
    for number, changed in enumerate(({"ended_s": 1e18}, {"started_s": math.nan}, {"content_bytes": 10**400}), start=1):
        file = run / str(number) / "operations.jsonl"
        first, *others = file.read_text().splitlines()
        file.write_text("\n".join([json.dumps(json.loads(first) | changed), *others]))
    text = page_of(run).text
    assert "the records of job 0 were left out: " in text
    for number in (1, 2, 3):
        assert f"the records of job {number} were left out: their times or amounts make no sense" in text
    assert "fetch of a batch from a map data set, ms" in text


def test_a_long_job_has_longer_segments(tmp_path: Path) -> None:
    run = recorded_run(tmp_path / "run", sweep_jobs(workers=(1,), repeats=1))
    file = run / "0" / "operations.jsonl"
    *others, epoch = file.read_text().splitlines()
    file.write_text("\n".join([*others, json.dumps(json.loads(epoch) | {"ended_s": 10 + 3000})]))
    assert "in segments of 16 s" in page_of(run).text


def test_a_half_character_and_a_number_beyond_all_columns_cost_nothing(tmp_path: Path) -> None:
    jobs = [{**results, "parameters": {"seed": 10**30, "name": "\ud800"}} for results in small_run()]
    run = write_run(tmp_path / "run", jobs)
    assert main([str(run), "--html", str(tmp_path / "a"), "--csv", str(tmp_path / "b")]) == 0
    pytest.importorskip("pyarrow")
    assert main([str(run), "--parquet", str(tmp_path / "c")]) == 0


def test_doubts_about_a_result_stand_at_its_row(tmp_path: Path) -> None:
    jobs = small_run()
    for results in jobs:
        if results["client"] == "slow":
            results["figures"]["server_warnings"] = {"unit": "warnings", "value": 2, "reason": None}
            results["verification"] |= {"checked_by_size": 8, "checked_in_warmup": 4}
    text = page_of(write_run(tmp_path / "run", jobs)).text
    assert "132 of 180 whole; 48 by key and size; 24 more of warm-ups, whole" in text
    assert text.count("host is the limit") == 2  # at the row, and below the charts with its reason
    assert "slow: host is the limit: in 6 of 6 repeats the testbed said that this host does not keep" in text


def test_several_runs_are_chapters_of_one_page(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / name, small_run()) for name in ("one", "two")]
    page = PageStructure(render_html([load_run(run) for run in runs]))
    assert len(page.named("article")) == 2
    assert len(page.data["rows"]) == 6
    with pytest.raises(UsageError, match="dataset/one is given twice"):
        render_html([load_run(runs[0])] * 2)


def test_the_page_of_the_same_results_is_the_same(tmp_path: Path) -> None:
    run = load_run(write_run(tmp_path / "run", small_run()))
    assert render_html([run]) == render_html([run])


def test_the_command_writes_it_and_prints_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, page = write_run(tmp_path / "run", small_run()), tmp_path / "page.html"
    assert main([str(run), "--html", str(page)]) == 0
    out, err = capsys.readouterr()
    assert "fast won with 5.00 times the throughput of slow" in " ".join(out.split())
    assert err == ""
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["page.html", "run"]


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write_run(tmp_path / "run", small_run())
    assert main([str(run), "--html", str(tmp_path / "absent" / "page.html")]) == 2
    assert f"{tmp_path / 'absent' / 'page.html'} could not be written: No such file" in capsys.readouterr().err
    assert main([str(run), "--html", str(tmp_path)]) == 2
    assert "is a directory" in capsys.readouterr().err


@pytest.mark.parametrize("package", ["vl_convert", "jinja2"])
def test_without_its_packages_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    run = load_run(write_run(tmp_path / "run", small_run()))
    monkeypatch.setitem(sys.modules, package, None)
    before = tmp_path / "page.html"
    before.write_text("before")
    with pytest.raises(UsageError, match=r"pip install 'torchbucket\[report\]'"):
        write_html([run], before)
    assert before.read_text() == "before"
