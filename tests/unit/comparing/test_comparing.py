"""What became better or worse from one run to another, said with what certainty, or refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from report_results import PARAMETERS, job, write_run

from bucketbench.cli import main
from bucketbench.comparing.changes import changes_between
from bucketbench.comparing.selection import select
from bucketbench.comparing.wording import as_text

FAST = [100.0, 101.0, 99.0, 100.5, 98.5, 102.0]
HOST = {"cpu_model": "Abacus", "cpu_cores": 2, "memory_mib": 8192}


def run_of(directory: Path, values: list[float], client: str = "ours", **changes: Any) -> Path:
    return write_run(directory, [job(client, repeat, value, **changes) for repeat, value in enumerate(values)])


def compared(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    status = main(["compare", *map(str, arguments)])
    told = capsys.readouterr()
    return status, told.out, told.err


@pytest.mark.parametrize(
    ("factor", "effect", "status"), [(0.8, "worse", 1), (1.25, "better", 0), (1.0, "undecided", 0)]
)
def test_an_effect_and_its_status(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], factor: float, effect: str, status: int
) -> None:
    base = run_of(tmp_path / "a", FAST)
    candidate = run_of(tmp_path / "b", [factor * value for value in reversed(FAST)])
    found, out, _ = compared(capsys, base, candidate, "--fail-on-regression", "10%", "--json")
    assert found == status
    (change,) = [one for one in json.loads(out)["changes"] if one["figure"] == "throughput_mibs"]
    assert change["effect"] == effect
    assert change["ratio"] == pytest.approx(factor, rel=0.02)
    assert change["interval"]["low"] < factor < change["interval"]["high"]


def test_a_small_regression_is_told_and_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = run_of(tmp_path / "a", FAST)
    candidate = run_of(tmp_path / "b", [0.93 * value for value in FAST])
    status, out, _ = compared(capsys, base, candidate, "--fail-on-regression", "10", "--markdown")
    assert status == 0
    assert "**worse**" in out
    assert compared(capsys, base, candidate, "--fail-on-regression", "5")[0] == 1


def test_a_client_that_one_run_lacks_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sides = []
    for name, clients in (("a", ("ours", "lost")), ("b", ("ours", "new"))):
        jobs = [job(client, repeat, value) for client in clients for repeat, value in enumerate(FAST)]
        sides.append(write_run(tmp_path / name, jobs))
    out = compared(capsys, *sides)[1]
    assert f"in {sides[0]} alone, and not compared: lost\nin {sides[1]} alone, and not compared: new\n" in out
    told = json.loads(compared(capsys, *sides, "--json")[1])
    assert told["in_one_run_alone"] == {"base": ["lost"], "candidate": ["new"]}
    assert "alone" not in compared(capsys, f"{sides[0]}@ours", f"{sides[1]}@ours")[1]


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_a_comparison_fits_the_terminal(tmp_path: Path, width: int) -> None:
    client = "s3torchconnector-iterable"
    sides = [
        select(str(run_of(tmp_path / name, [factor * one for one in FAST], client)), tmp_path)
        for name, factor in (("a", 123.4), ("b", 98.7))
    ]
    text = as_text(changes_between(sides[0], sides[1], figures=["throughput_mibs", "latency_p95_s"]), width=width)
    assert max(map(len, text.splitlines())) <= width
    for whole in ("12,371", "9,895", "worse", "[MiB/s]", "0.25"):
        assert whole in text, whole


def test_a_client_that_fails_now_is_worse(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = run_of(tmp_path / "a", FAST)
    candidate = write_run(tmp_path / "b", [job("ours", repeat, None) for repeat in range(6)])
    status, out, err = compared(capsys, base, candidate, "--fail-on-regression", "50%")
    assert status == 1
    assert "it fails now: the measured process was killed by SIGKILL" in " ".join(out.split())
    assert "ours has become worse" in err


def test_few_repeats_have_a_ratio_and_no_interval(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = compared(capsys, run_of(tmp_path / "a", FAST[:3]), run_of(tmp_path / "b", FAST[:3]), "--json")
    (change,) = json.loads(out)["changes"]
    assert (status, change["effect"], change["interval"]) == (0, "undecided", None)
    assert "repeats" in change["reason"]


REFUSED = {
    "other parameters": ({"parameters": PARAMETERS | {"network": "lan"}}, "network is 'regional' and 'lan'", "network"),
    "another machine": ({"host": HOST | {"cpu_cores": 64}}, "cpu_cores is 2 and 64", "host"),
    "other options": (
        {"client_options": {"options.thread_count": 4}},
        "client.options.thread_count is 'absent' and 4",
        "client.options",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_not_alike_is_refused_and_named(tmp_path: Path, capsys: pytest.CaptureFixture[str], what: str) -> None:
    changes, words, key = REFUSED[what]
    sides = run_of(tmp_path / "a", FAST), run_of(tmp_path / "b", FAST, **changes)
    status, out, err = compared(capsys, *sides)
    assert (status, out) == (2, "")
    assert words in err
    assert f"--allow {key}" in err
    assert compared(capsys, *sides, "--allow", key)[0] == 0


def test_two_clients_of_one_run_are_compared_pair_by_pair(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # Repeats that differ ten times, and pairs that hardly do.
    jobs = [job("a", repeat, 10.0 * (repeat + 1)) for repeat in range(6)]
    jobs += [job("b", repeat, (11.0 + repeat / 100) * (repeat + 1)) for repeat in range(6)]
    run = write_run(tmp_path / "run", jobs)
    _, out, _ = compared(capsys, f"{run}@a", f"{run}@b", "--json")
    (change,) = json.loads(out)["changes"]
    assert (change["client"], change["effect"]) == ("a → b", "better")
    assert compared(capsys, f"{run}@a", f"{run}@nobody")[2].endswith("it has a, b\n")


def test_a_machine_that_was_slower_as_a_whole_does_not_count(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def both(directory: Path, factor: float) -> Path:
        jobs = [job(client, repeat, factor * value) for client in ("ours", "raw") for repeat, value in enumerate(FAST)]
        return write_run(directory, jobs)

    sides = both(tmp_path / "a", 1.0), both(tmp_path / "b", 0.7)
    assert compared(capsys, *sides, "--fail-on-regression", "10%")[0] == 1
    assert compared(capsys, *sides, "--fail-on-regression", "10%", "--relative-to", "raw")[0] == 0


def test_baselines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    run = run_of(tmp_path / "multirun" / "dataset" / "2026-11-02_10-00-00", FAST)
    assert main(["baseline", "v1"]) == 0
    assert main(["baseline", "v1", str(run)]) == 2
    assert "--replace" in capsys.readouterr().err
    assert main(["baseline", "v1", str(run), "--replace"]) == 0
    assert main(["baseline", "../v1", str(run)]) == 2
    capsys.readouterr()
    assert main(["baseline"]) == 0
    assert capsys.readouterr().out == "v1\n"
    assert compared(capsys, "v1")[0] == 0
    status, _, err = compared(capsys, "v2")
    assert status == 2
    assert "there: v1" in err


def test_versions_that_differ_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sides = [run_of(tmp_path / name, FAST, versions={"boto3": name, "python": "3"}) for name in ("1.40", "1.43")]
    assert "versions: boto3 1.40 → 1.43" in compared(capsys, *sides)[1]


@pytest.mark.parametrize("share", ["-1", "100", "ten"])
def test_a_share_that_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str], share: str) -> None:
    run = run_of(tmp_path / "a", FAST)
    assert compared(capsys, run, run, f"--fail-on-regression={share}")[0] == 2
