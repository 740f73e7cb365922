"""The measurement of wrong verdicts: which repeats it compares, and that its slowed client is as slow as it says."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from bucketbench.records import Figure
from bucketbench.statistics import MeasuredJob

UTILS = Path(__file__).parents[3] / "utils"


@pytest.fixture(autouse=True)
def utils_are_importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(UTILS), str(UTILS / "verdict_measurement"), *sys.path])


def job(client: str, repeat: int, speed: float, **changes: Any) -> MeasuredJob:
    figures = {"throughput_mibs": Figure(unit="MiB/s", value=speed)}
    return MeasuredJob(scenario="dataset", client=client, parameters={}, repeat=repeat, figures=figures, **changes)


def test_every_group_of_repeats_is_one_comparison_and_one_that_lacks_a_repeat_is_none() -> None:
    from measure_verdicts import comparisons, described

    jobs = [job("one", repeat, 100 + repeat) for repeat in range(18)]
    jobs += [job("other", repeat, 100 + repeat + (-1) ** repeat) for repeat in range(6)]
    jobs += [job("other", repeat, 50 + repeat / 7) for repeat in range(6, 12)]
    jobs += [job("other", repeat, 50, failure="killed" if repeat == 14 else None) for repeat in range(12, 18)]
    found = comparisons(jobs, "one", "other", repeats=6)
    assert [comparison.decided for comparison in found] == [False, True]
    assert described("itself", found).startswith("| itself | 2 | 1 | 0 |")


def test_a_delayed_map_takes_longer_by_the_part_that_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    import delayed_map

    class Inner:
        def __len__(self) -> int:
            return 3

        def __getitems__(self, indices: list[int]) -> list[int]:
            clock[0] += 2.0
            return indices

    clock, slept = [10.0], []
    monkeypatch.setattr("time.perf_counter", lambda: clock[0])
    monkeypatch.setattr("time.sleep", slept.append)
    delayed = delayed_map._Delayed(Inner(), 0.15)
    assert (len(delayed), delayed.__getitems__([1, 2])) == (3, [1, 2])
    assert delayed_map._Delayed(Inner(), 0.0).__getitems__([0]) == [0]
    assert slept == [pytest.approx(0.3)]
