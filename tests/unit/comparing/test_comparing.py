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


def test_a_difference_within_the_noise_of_runs_is_undecided(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    steady = [100.0, 100.1, 99.9, 100.05, 99.95, 100.02]
    sides = run_of(tmp_path / "a", steady), run_of(tmp_path / "b", [0.995 * value for value in reversed(steady)])
    change = json.loads(compared(capsys, *sides, "--json")[1])["changes"][0]
    assert change["interval"]["high"] < 1
    assert change["effect"] == "undecided"
    assert "not beyond the 1% that runs may differ by (--noise-threshold)" in change["reason"]
    change = json.loads(compared(capsys, *sides, "--json", "--noise-threshold", "0.1%")[1])["changes"][0]
    assert change["effect"] == "worse"


def test_what_a_terminal_would_take_for_commands_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    run = run_of(tmp_path / "a\x1b[2Jb", FAST)
    cut = tmp_path / "cut\x1b[2J"
    cut.mkdir()
    (cut / "run_results.json").write_text("{")
    status, out, _ = compared(capsys, run, run_of(tmp_path / "b", FAST))
    assert (status, "\x1b" in out, "a\\x1b[2Jb" in out) == (0, False, True)
    status, _, err = compared(capsys, run, str(cut))
    assert (status, "\x1b" in err, "cut\\x1b[2J" in err) == (2, False, True)
    for named, expected in ((str(run), 0), (str(cut), 2)):
        assert main(["baseline", "shown", named, "--replace"]) == expected
        told = capsys.readouterr()
        assert "\x1b" not in told.out + told.err
        assert "\\x1b[2J" in told.out + told.err


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
        values = {"ours": FAST, "raw": FAST[::-1]}
        jobs = [job(client, repeat, factor * value) for client in values for repeat, value in enumerate(values[client])]
        return write_run(directory, jobs)

    sides = both(tmp_path / "a", 1.0), both(tmp_path / "b", 0.7)
    note = "raw, which shows what the machine and its network can do, has 0.700 times the throughput_mibs"
    status, out, _ = compared(capsys, *sides, "--fail-on-regression", "10%")
    assert status == 1
    assert note in " ".join(out.split())
    status, out, _ = compared(capsys, *sides, "--fail-on-regression", "10%", "--relative-to", "raw")
    assert status == 0
    assert note not in " ".join(out.split())
    (change,) = json.loads(compared(capsys, *sides, "--relative-to", "raw", "--json")[1])["changes"]
    assert (change["client"], change["unit"], change["base"]) == ("ours", "times raw", pytest.approx(1.0, rel=0.02))


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
    status, _, err = compared(capsys, "v1")
    assert (status, err.count("are the same run")) == (2, 1)
    run_of(tmp_path / "multirun" / "dataset" / "2026-11-03_10-00-00", FAST)
    assert compared(capsys, "v1")[0] == 0
    (tmp_path / "v1").mkdir()
    assert "v1 is a baseline and a path too: name baselines/v1/run_results.json" in compared(capsys, "v1")[2]
    cut = write_run(tmp_path / "cut", [job("ours", 0, 1.0)], whole=False)
    assert main(["baseline", "cut", str(cut)]) == 2
    assert f"complete it with bucketbench resume {cut}" in capsys.readouterr().err
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


INVALID = {"state": "invalid", "marks": [{"rule": "steal", "state": "invalid", "reason": "others took the CPU"}]}


def test_what_has_no_counterpart_is_told_also_of_a_client_of_both_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def side(name: str, parts: tuple[int, ...], networks: tuple[str, ...]) -> Path:
        jobs = [
            job(
                "ours", at, value, client_options={"options.part_bytes": part}, parameters=PARAMETERS | {"network": net}
            )
            for part in parts
            for net in networks
            for at, value in enumerate(FAST)
        ]
        return write_run(tmp_path / name, [*jobs, *(job("raw", repeat, value) for repeat, value in enumerate(FAST))])

    base = side("a", (8,), ("regional", "far"))
    told = json.loads(compared(capsys, base, side("b", (8,), ("regional",)), "--json")[1])
    assert told["in_one_run_alone"] == {"base": ["ours with network=far"], "candidate": []}
    _, out, _ = compared(capsys, base, side("c", (16,), ("regional", "far")))
    assert f"in {base} alone, and not compared: ours with client.options.part_bytes=8\n" in out
    assert "alone, and not compared: ours with client.options.part_bytes=16\n" in out
    # A client that one run has in two ways is still the client that the other has in one of them.
    told = json.loads(compared(capsys, base, side("d", (8, 16), ("regional", "far")), "--json")[1])
    assert len(told["changes"]) == 3
    assert told["in_one_run_alone"]["candidate"] == ["ours with client.options.part_bytes=16"]


def test_a_gate_that_could_tell_nothing_does_not_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = run_of(tmp_path / "a", FAST)
    gate = ("--fail-on-regression", "5%")
    for name, candidate in {
        "invalid": run_of(tmp_path / "b", [value / 2 for value in FAST], validity=INVALID),
        "few": run_of(tmp_path / "c", [50.0]),
        "alike": run_of(tmp_path / "d", [50.0] * 6),
    }.items():
        assert compared(capsys, base, candidate)[0] == 0, name
        status, _, err = compared(capsys, base, candidate, *gate)
        assert (status, "no regression could have been told" in err) == (2, True), name


def test_a_share_is_of_the_value_whichever_way_is_better(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sides = []
    for name, factor in (("a", 1.0), ("b", 1.3)):
        jobs = [job("ours", repeat, 100.0) for repeat in range(6)]
        for one, value in zip(jobs, FAST, strict=True):
            one["figures"]["latency_p95_s"]["value"] = factor * value
        sides.append(write_run(tmp_path / name, jobs))
    found = [
        compared(capsys, *sides, "--figure", "latency_p95_s", f"--fail-on-regression={share}")[0] for share in (25, 35)
    ]
    assert found == [1, 0]


def test_failures_of_some_repeats_are_told_and_more_of_them_are_worse(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def side(name: str, failing: int) -> Path:
        return write_run(tmp_path / name, [job("ours", at, None if at < failing else FAST[at]) for at in range(6)])

    some, more = side("a", 1), side("b", 2)
    out = " ".join(compared(capsys, some, more)[1].split())
    assert "before, 1 of 6 repeats failed: the measured process was killed by SIGKILL" in out
    assert "after, 2 of 6 repeats failed" in out
    assert compared(capsys, some, side("c", 6), "--fail-on-regression", "5%")[0] == 1


def test_a_reference_that_is_invalid_or_failed_divides_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def side(name: str, raw: list[dict[str, Any]]) -> Path:
        return write_run(tmp_path / name, [*(job("ours", at, value) for at, value in enumerate(FAST)), *raw])

    good = side("a", [job("raw", at, value) for at, value in enumerate(FAST[::-1])])
    invalid = side("b", [job("raw", at, value, validity=INVALID) for at, value in enumerate(FAST[::-1])])
    failed = side("c", [job("raw", at, None) for at in range(6)])
    for other, reason in (
        (invalid, "raw's figures after are invalid"),
        (failed, "raw has no throughput_mibs to divide by"),
    ):
        (change,) = json.loads(compared(capsys, good, other, "--relative-to", "raw", "--json")[1])["changes"]
        assert change["effect"] == "n/a"
        assert change["reason"].startswith(reason)


def test_any_job_on_another_machine_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    jobs = [job("ours", at, value, host=HOST | {"cpu_cores": 64 if at else 2}) for at, value in enumerate(FAST)]
    status, _, err = compared(capsys, run_of(tmp_path / "a", FAST), write_run(tmp_path / "b", jobs))
    assert (status, "cpu_cores is 2 and 64" in err) == (2, True)


def test_an_interrupted_side_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cut = write_run(tmp_path / "b", [job("ours", at, value) for at, value in enumerate(FAST)], whole=False)
    base = run_of(tmp_path / "a", FAST)
    assert f"{cut}: run_results.json is missing: the sweep was interrupted" in compared(capsys, base, cut)[1]
    assert "interrupted" in json.loads(compared(capsys, base, cut, "--json")[1])["candidate"]["notes"][0]


def test_what_a_file_says_is_neither_markup_nor_moves_the_cursor(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    label = "<b> ![i](http://x/y.png)\n# \x1b[31mred\x9b1m"
    sides = [run_of(tmp_path / name, FAST, client="a\x1b[2J", config={"label": label}) for name in ("a", "b")]
    for form in ((), ("--markdown",)):
        out = compared(capsys, *sides, *form)[1]
        assert "\x1b" not in out
        assert "\x9b" not in out
        assert "\n#" not in out
    assert "\\<b> !\\[i]" in out


def test_the_unit_is_that_of_the_results(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sides = []
    for name in ("a", "b"):
        jobs = [job("ours", at, value) for at, value in enumerate(FAST)]
        for one in jobs:
            one["figures"]["throughput_mibs"]["unit"] = "MB/s"
        sides.append(write_run(tmp_path / name, jobs))
    assert "[MB/s]" in compared(capsys, *sides)[1]


def test_a_name_that_no_path_can_have_is_no_regression(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert compared(capsys, "x" * 5000, run_of(tmp_path / "a", FAST))[0] == 2
    assert "names no run before the @" in compared(capsys, "@ours", run_of(tmp_path / "b", FAST))[2]
