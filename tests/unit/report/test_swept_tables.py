"""The table of a sweep: the values of its keys in rows, clients in columns, and where each client was best."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from report_results import PARAMETERS, job, write_run

from bucketbench.report import load_run, render_table
from bucketbench.report.costs import figures_of, form_of
from bucketbench.report.markdown import render_markdown
from bucketbench.report.sections import arrange
from bucketbench.report.swept import SweptTable, swept_tables

DRIFTS = (0.0, 0.01, 0.02, -0.01, 0.015, 0.03)


def swept(client: str, speeds: dict[int, float], *, repeats: int = 6, **changes: Any) -> list[dict[str, Any]]:
    """The jobs of a client at some numbers of workers, each repeat a little faster or slower than the others."""
    return [
        job(
            client,
            repeat,
            speed * (1 + DRIFTS[(repeat + place) % 6]),
            parameters=PARAMETERS | {"dataloader.num_workers": number},
            **changes,
        )
        for repeat in range(repeats)
        for place, (number, speed) in enumerate(speeds.items())
    ]


def tables(path: Path) -> list[SweptTable]:
    run = load_run(path)
    return swept_tables(run, arrange(run), form_of(run), figures_of(run))


def test_rows_are_values_and_columns_clients_the_best_first(tmp_path: Path) -> None:
    jobs = [*swept("slow", {16: 20, 2: 10, 4: 19.9}), *swept("fast", {16: 70, 2: 60, 4: 100})]
    (table,) = tables(write_run(tmp_path / "run", jobs))
    assert table.heading == "MiB/s"
    assert table.keys == ("dataloader.num_workers",)
    assert table.clients == ("fast", "slow")
    assert [row.values for row in table.rows] == [("2",), ("4",), ("16",)]
    assert [row.cells[0].text for row in table.rows] == ["60.8", "101", "70.9"]
    fast, slow = table.best
    assert (fast.text, fast.why) == ("4", "")
    assert slow.text == "16 or 4"
    assert slow.why == "the interval of their ratio does not lie above 1"
    assert table.notes() == [
        "slow: its best MiB/s is undecided between 16 and 4: the interval of their ratio does not lie above 1",
    ]


def test_few_repeats_decide_nothing_and_failures_are_not_best(tmp_path: Path) -> None:
    jobs = [*swept("few", {2: 10, 4: 20}, repeats=2), *swept("fails", {2: 10, 4: 90}, repeats=2)]
    jobs[-1] = job("fails", 1, None, parameters=jobs[-1]["parameters"])
    (table,) = tables(write_run(tmp_path / "run", jobs))
    best = dict(zip(table.clients, table.best, strict=True))
    assert best["few"].text == "4 or 2"
    assert "needs 6 repeats, got 2" in best["few"].why
    assert (best["fails"].text, best["fails"].why) == ("2", "")
    assert "(1/2 failed)" in table.rows[1].cells[table.clients.index("fails")].text


def marked(job: dict[str, Any], state: str, rule: str, reason: str) -> None:
    job["validity"] = {"state": state, "marks": [{"rule": rule, "state": state, "reason": reason}]}


def test_what_is_invalid_is_marked_with_the_reason_and_not_best(tmp_path: Path) -> None:
    jobs = swept("a", {2: 10, 4: 20})
    marked(jobs[1], "invalid", "steal", "others took the CPU")
    (table,) = tables(write_run(tmp_path / "run", jobs))
    assert table.rows[1].texts == ("4", "20.2 (1/6 invalid)")
    assert table.rows[1].cells[0].reason == "others took the CPU"
    assert table.best[0].text == "2"
    assert table.notes() == ["invalid (steal): a at 4 (1/6): others took the CPU"]
    for one in jobs:
        marked(one, "invalid", "steal", "others took the CPU")
    (table,) = tables(write_run(tmp_path / "all", jobs))
    assert table.best[0].text == "n/a"
    assert table.notes()[0] == "a: no best MiB/s: its figures are invalid"


def test_a_doubt_is_told_where_the_best_is(tmp_path: Path) -> None:
    jobs = swept("a", {2: 10, 4: 20, 8: 20.1})
    for one in jobs:
        if one["parameters"]["dataloader.num_workers"] == 4:
            marked(one, "doubtful", "other_load", f"the compiler used {one['repeat']} %")
    run = write_run(tmp_path / "run", jobs)
    (table,) = tables(run)
    assert [row.texts[1] for row in table.rows] == ["10.1", "20.2 (doubtful)", "20.4"]
    assert table.best[0].text == "8 or 4 (doubtful)"
    undecided, rule = table.notes()
    assert undecided.endswith("undecided between 8 and 4: the interval of their ratio does not lie above 1; its "
                              "figures at 4 are doubtful")  # fmt: skip
    assert rule == "doubtful (other_load): a at 4 (6/6): such as the compiler used 0 %"
    told = " ".join(render_table(load_run(run), width=100).split())
    assert f"- {rule}" in told[told.index("MiB/s over") :]
    alone = [one for one in jobs if one["parameters"]["dataloader.num_workers"] != 8]
    (table,) = tables(write_run(tmp_path / "decided", alone))
    assert table.notes()[0] == "a: MiB/s is best at 4, where its figures are doubtful"


def test_values_of_equal_text_are_told_apart(tmp_path: Path) -> None:
    values: list[Any] = [2, "2", True, "true", 1, 1.0, None, "null", ""]
    jobs = [job("a", 0, float(10 + place), parameters=PARAMETERS | {"k": value}) for place, value in enumerate(values)]
    run = load_run(write_run(tmp_path / "run", jobs))
    (table,) = tables(run.directory)
    found = {row.values[0]: row.cells[0].figure for row in table.rows}
    assert found == {
        "2": "10.0", '"2"': "11.0", "true": "12.0", '"true"': "13.0", "1": "14.0", "1.0": "15.0", "null": "16.0",
        '"null"': "17.0", '""': "18.0",
    }  # fmt: skip
    sections = arrange(run)
    assert len({section.title for section in sections}) == len(values)
    assert " k=" not in render_markdown(run).splitlines()[0]  # it is not what all have in common


def test_options_of_equal_text_make_two_contestants(tmp_path: Path) -> None:
    options: list[dict[str, Any]] = [{"options.n": 1}, {"options.n": True}, {"options.n": "true"}, {}]
    jobs = [job("a", 0, 10.0 + place, client_options=one) for place, one in enumerate(options)]
    run = load_run(write_run(tmp_path / "run", jobs))
    assert [one.client for one in run.jobs] == ["a (n=1)", "a (n=true)", 'a (n="true")', "a (n=unset)"]
    (table,) = tables(run.directory)
    assert [row.texts for row in table.rows] == [
        ("1", "10.0"), ("", "13.0"), ('"true"', "12.0"), ("true", "11.0"),
    ]  # fmt: skip


def test_several_keys_and_options_of_a_client_are_columns(tmp_path: Path) -> None:
    jobs = [
        job(client, 0, speed, parameters=PARAMETERS | {"dataloader.num_workers": number}, client_options=options)
        for client, options, speeds in (
            ("parts", {"options.part_bytes": 8}, (10.0, 20.0)),
            ("parts", {"options.part_bytes": 16}, (30.0, 25.0)),
            ("plain", {}, (5.0, 6.0)),
        )
        for number, speed in zip((2, 4), speeds, strict=True)
    ]
    (table,) = tables(write_run(tmp_path / "run", jobs))
    assert table.keys == ("dataloader.num_workers", "client.options.part_bytes")
    assert table.clients == ("parts", "plain")
    assert tuple(row.texts for row in table.rows) == (
        ("2", "8", "10.0", ""), ("2", "16", "30.0", ""), ("2", "", "", "5.00"),
        ("4", "8", "20.0", ""), ("4", "16", "25.0", ""), ("4", "", "", "6.00"),
    )  # fmt: skip
    assert table.best[0].values[0] == "2, 16"


def test_a_run_that_sweeps_nothing_has_no_such_table(tmp_path: Path) -> None:
    assert tables(write_run(tmp_path / "run", [job("a", 0, 1.0), job("b", 0, 2.0)])) == []


@pytest.mark.parametrize("width", [60, 80, 200])
def test_the_terminal_has_it_whole_at_any_width(tmp_path: Path, width: int) -> None:
    jobs = [one for number in range(7) for one in swept(f"a-client-of-some-length-{number}", {2: 10.5, 4: 20.5})]
    text = render_table(load_run(write_run(tmp_path / "run", jobs)), width=width)
    found = text[text.index("MiB/s over dataloader.num_workers") :]
    assert max(map(len, text.splitlines())) <= width
    assert found.count("20.8") == 7
    assert "best at" in found


def test_markdown_has_it(tmp_path: Path) -> None:
    text = render_markdown(load_run(write_run(tmp_path / "run", swept("fast", {2: 60, 4: 100}))))
    assert "MiB/s over dataloader.num\\_workers" in text
    assert "| dataloader.num\\_workers | fast |\n| --: | --: |\n| 2 | 60.8 |\n| 4 | 101 |\n| **best at** | 4 |" in text
