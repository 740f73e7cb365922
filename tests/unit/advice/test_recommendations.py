"""What is advised of a run: the best by what was measured, how sure that is, and what being wrong would cost."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from report_results import PARAMETERS, job, write_run

from bucketbench.advice.command import main

DRIFTS = (0.0, 0.01, 0.02, -0.01, 0.015, 0.03)


def jobs(
    client: str, speeds: dict[int, float], *, shift: int = 0, repeats: int = 6, memory_mib: float = 512, **changes: Any
) -> list[dict[str, Any]]:
    """A client's jobs at some numbers of workers; an epoch asks for 1,000 objects."""
    made = []
    for repeat in range(repeats):
        for place, (number, speed) in enumerate(speeds.items()):
            fields = {
                "parameters": PARAMETERS | {"dataloader.num_workers": number},
                "config": {"target": {"scheme": "s3"}, "client": {"name": client, "role": "contestant"}},
                "traffic": {
                    "epoch": {"times": 1, "requests": {"get_object": 1000}, "received_bytes": 0, "sent_bytes": 0}
                },
            }
            one = job(client, repeat, speed * (1 + DRIFTS[(repeat + place + shift) % 6]), **{**fields, **changes})
            one["figures"]["peak_rss_mib"]["value"] = memory_mib + number
            made.append(one)
    return made


def advised(path: Path, capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> list[str]:
    assert main([str(path), *arguments]) == status
    out, err = capsys.readouterr()
    assert err == ""
    return out.splitlines()


def test_three_lines_say_what_how_sure_and_what_if_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write_run(
        tmp_path / "run",
        [
            *jobs("fast", {2: 60, 4: 100}, client_options={"options.part_bytes": 8}),
            *jobs("slow", {2: 10, 4: 20}, shift=3),
        ],
    )
    what, sure, wrong = advised(run, capsys)
    assert what == (
        "Take client=fast dataloader.num_workers=4 ++client.options.part_bytes=8 for target=local network=regional: "
        "101 MiB/s."
    )
    assert sure.startswith(
        "How sure: it is ahead of 3 others, each at 95% confidence; the next is fast with num_workers=2, part_bytes=8, "
        "of which it has 1.67 times the value (1.6"
    )
    assert wrong == (
        "If that is wrong: no throughput is lost to anything that was measured; the next best would have 60% of it; it "
        "takes 516 MiB of memory, 2 MiB more than fast with num_workers=2, part_bytes=8; 1,000 epochs cost 0.40 USD, "
        "with fast with num_workers=2, part_bytes=8 as much."
    )


def test_a_tie_is_undecided_with_what_it_may_cost(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write_run(
        tmp_path / "run",
        [*jobs("one", {4: 100}), *jobs("other", {4: 99.5}, shift=3, memory_mib=300), *jobs("far", {4: 10}, shift=1)],
    )
    what, sure, wrong = advised(run, capsys)
    assert what.startswith("Take client=one dataloader.num_workers=4 for")
    assert what.endswith("MiB/s (dataloader.num_workers was tried with this value alone).")
    assert "undecided between it and 1 other: other with num_workers=4, of which it has 1.0" in sure
    assert "the interval of their ratio does not lie above 1" in sure
    assert "far" not in sure
    assert "of the throughput is lost, to other with num_workers=4; it takes 516 MiB of memory, 212 MiB more" in wrong
    (advice,) = json.loads("\n".join(advised(run, capsys, "--json")))
    assert advice["decided"] is False
    assert [one["undecided"] is None for one in advice["others"]] == [False, True]
    assert 0 < advice["others"][0]["lost_at_most"] < 0.1
    assert f"{advice['others'][0]['lost_at_most']:.1%}" in wrong


def test_too_few_repeats_decide_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write_run(tmp_path / "run", [*jobs("fast", {4: 100}, repeats=2), *jobs("slow", {4: 10}, repeats=2)])
    _, sure, wrong = advised(run, capsys)
    assert "undecided between it and 1 other: slow with num_workers=4" in sure
    assert "needs 6 repeats, got 2" in sure
    assert "how much throughput is lost at most is not known without an interval" in wrong


def test_one_client_is_the_best_of_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, sure, wrong = advised(write_run(tmp_path / "run", jobs("alone", {4: 100})), capsys)
    assert "nothing else was measured that could be taken" in sure
    assert (
        "what another client would give is not known; it takes 516 MiB of memory; 1,000 epochs cost 0.40 USD" in wrong
    )


def test_failures_errors_and_references_are_no_basis(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fails = jobs("fails", {4: 900})
    fails[3] = job("fails", 3, None, parameters=fails[3]["parameters"], config=fails[3]["config"])
    wrong = jobs("wrong", {4: 800})
    wrong[0]["figures"]["errors"]["value"] = 2
    invalid = jobs("steals", {4: 700}, validity={
        "state": "invalid", "marks": [{"rule": "steal", "state": "invalid", "reason": "others took the CPU"}],
    })  # fmt: skip
    ceiling = {"target": {"scheme": "s3"}, "client": {"name": "raw", "role": "ceiling"}}
    run = write_run(
        tmp_path / "run", [*jobs("good", {4: 50}), *fails, *wrong, *invalid, *jobs("raw", {4: 999}, config=ceiling)]
    )
    what, sure, _ = advised(run, capsys)
    assert what.startswith("Take client=good ")
    assert "Left out: fails with num_workers=4: 1 of 6 repeats failed; wrong with num_workers=4: 2 errors" in sure
    assert "steals with num_workers=4: 6 of 6 repeats are invalid: others took the CPU" in sure
    assert "raw" not in "".join(advised(run, capsys))
    (none,) = advised(write_run(tmp_path / "none", fails), capsys, status=1)
    assert none == (
        "Take none: the run is no basis for advice on throughput (fails with num_workers=4: 1 of 6 repeats failed)."
    )


def test_a_memory_limit_leaves_out_what_took_more(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write_run(
        tmp_path / "run", [*jobs("large", {4: 100}, memory_mib=4000), *jobs("small", {4: 50}, memory_mib=100, shift=2)]
    )
    assert advised(run, capsys)[0].startswith("Take client=large ")
    what, sure, _ = advised(run, capsys, "--memory-limit", "1GiB")
    assert what.startswith("Take client=small ")
    assert "Left out: large with num_workers=4: it took 4,004 MiB of memory" in sure
    assert main([str(run), "--memory-limit", "much"]) == 2


def test_what_is_not_ours_to_choose_makes_another_question(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    near, far = (PARAMETERS | {"network": name} for name in ("regional", "far"))
    run = write_run(
        tmp_path / "run",
        [
            *jobs("a", {2: 100}, parameters=near), *jobs("b", {2: 50}, shift=2, parameters=near),
            *jobs("a", {2: 10}, parameters=far), *jobs("b", {2: 20}, shift=2, parameters=far),
        ],
    )  # fmt: skip
    lines = advised(run, capsys)
    assert [line for line in lines if line and not line.startswith(" ")] == [
        "throughput, network=regional:", "throughput, network=far:",
    ]  # fmt: skip
    assert [line.split()[1] for line in lines if "Take" in line] == ["client=a", "client=b"]


def test_the_best_of_each_style_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stream, indexed = ({"style": style} for style in ("iterable", "map"))
    run = write_run(
        tmp_path / "run", [*jobs("s", {2: 100}, details=stream), *jobs("m", {2: 50}, shift=2, details=indexed)]
    )
    assert "; of map data sets m with num_workers=2." in advised(run, capsys)[0]


def test_no_run_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "absent")]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("bucketbench recommend: there is no run at")


def test_a_run_in_which_all_failed_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write_run(tmp_path / "run", [job("fails", repeat, None) for repeat in range(2)])
    (none,) = advised(run, capsys, status=1)
    assert none.startswith("Take none: the run is no basis for advice on throughput (fails with num_workers=2: 2 of 2")


def test_what_is_missing_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write_run(tmp_path / "run", jobs("slow", {4: 10}), whole=False)
    assert main([str(run)]) == 0
    err = capsys.readouterr().err
    assert err.startswith("bucketbench recommend: run_results.json is missing: the sweep was interrupted")
    (advice,) = json.loads("\n".join(advised(run, capsys, "--json")))
    assert "interrupted" in advice["notes"][0]


def test_several_units_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = jobs("other", {4: 100}, shift=3)
    for one in other:
        one["figures"]["throughput_mibs"]["unit"] = "MB/s"
    assert main([str(write_run(tmp_path / "run", [*jobs("one", {4: 100}), *other]))]) == 2
    assert "MiB/s for one and MB/s for other" in capsys.readouterr().err


def test_the_advice_can_be_copied_into_a_shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = {"options.classes": ["a b", "c"]}
    (what, *_) = advised(write_run(tmp_path / "run", jobs("one", {4: 100}, client_options=options)), capsys)
    assert shlex.split(what)[3] == "++client.options.classes=['a b', 'c']"


def test_doubts_are_told_with_their_reasons(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = [*jobs("fast", {2: 60, 4: 100}), *jobs("slow", {4: 20}, shift=3)]
    for one in found[:2]:  # the first repeat of both
        mark = {"rule": "other_load", "state": "doubtful", "reason": "the compiler used 30 %"}
        one["validity"] = {"state": "doubtful", "marks": [mark]}
    _, sure, _ = advised(write_run(tmp_path / "run", found), capsys)
    assert sure.endswith(
        "; doubtful (other_load): fast with num_workers=4 (1/6), fast with num_workers=2 (1/6): such as the compiler "
        "used 30 %."
    )


def test_settings_of_equal_text_are_told_apart_and_quoted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = [
        one
        for place, size in enumerate((8, "8"))
        for one in jobs("a", {4: 50 + 50 * place}, shift=place, client_options={"options.part": size})
    ]
    what, sure, _ = advised(write_run(tmp_path / "run", found), capsys)
    assert shlex.split(what)[1:4] == ["client=a", "dataloader.num_workers=4", "++client.options.part='8'"]
    assert "the next is a with num_workers=4, part=8, of which" in sure
