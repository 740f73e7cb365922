"""Which keys a run sweeps, and what is drawn over them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from report_results import PARAMETERS, job, write_run

from bucketbench.report import load_run
from bucketbench.report.html.sweeps import Axis, axes
from bucketbench.report.sections import arrange
from bucketbench.scenarios import find_scenario


def axes_of(directory: Path, jobs: list[dict[str, Any]]) -> list[Axis]:
    run = load_run(write_run(directory / "run", jobs))
    scenario = find_scenario("dataset")
    return axes(run, arrange(run), scenario.table, scenario.figures)


def at(client: str, speed: float, options: dict[str, Any] | None = None, **parameters: Any) -> dict[str, Any]:
    told = {name.replace("__", "."): value for name, value in parameters.items()}
    return job(client, 0, speed, parameters={**PARAMETERS, **told}, client_options=options or {})


def test_a_run_of_one_parameter_set_has_none(tmp_path: Path) -> None:
    assert axes_of(tmp_path, [at("a", 1.0), at("b", 2.0)]) == []


def test_a_key_has_a_chart_for_each_set_of_the_others(tmp_path: Path) -> None:
    jobs = [
        at(client, 10.0 * workers, dataloader__num_workers=workers, dataloader__batch_size=batch)
        for client in ("a", "b")
        for workers in (1, 2, 4)
        for batch in (8, 16)
    ]
    workers, batches = axes_of(tmp_path, jobs)
    assert (workers.key, len(workers.charts)) == ("dataloader.num_workers", 2)
    assert [chart.hint for chart in workers.charts] == ["with dataloader.batch_size=8", "with dataloader.batch_size=16"]
    assert (batches.key, len(batches.charts)) == ("dataloader.batch_size", 3)
    assert "a · dataloader.num_workers=4: median 40.0 MiB/s of 1 repeat" in workers.charts[0].svg


def test_keys_that_change_together_are_one_axis(tmp_path: Path) -> None:
    jobs = [at("a", 1.0 * n, dataloader__num_workers=n, dataloader__batch_size=8 * n) for n in (1, 2)]
    (axis,) = axes_of(tmp_path, jobs)
    assert (axis.key, len(axis.charts)) == ("dataloader.num_workers", 1)


def test_words_are_an_axis_in_the_order_of_the_run(tmp_path: Path) -> None:
    (axis,) = axes_of(tmp_path, [at("a", speed, network=name) for name, speed in (("regional", 9.0), ("lan", 20.0))])
    assert axis.key == "network"
    drawn = axis.charts[0].svg
    assert drawn.index(">regional<") < drawn.index(">lan<")


def test_an_option_of_a_client_is_an_axis_with_one_curve_for_it(tmp_path: Path) -> None:
    jobs = [at("a", 1.0 * n, options={"options.threads": n}) for n in (1, 2, 4)] + [at("b", 3.0)]
    (axis,) = axes_of(tmp_path, jobs)
    assert axis.key == "client.options.threads"
    (chart,) = axis.charts
    assert chart.svg.count('aria-label="a · client.options.threads=') == 3
    assert 'aria-label="b' not in chart.svg


def test_a_client_that_failed_everywhere_has_no_curve(tmp_path: Path) -> None:
    jobs = [at("a", 1.0 * n, dataloader__num_workers=n) for n in (1, 2)]
    dead = [job("dead", 0, None, parameters={**PARAMETERS, "dataloader.num_workers": n}) for n in (1, 2)]
    (axis,) = axes_of(tmp_path, [*jobs, *dead])
    assert "dead" not in axis.charts[0].svg


def test_what_is_doubtful_or_invalid_has_a_ring_and_says_why(tmp_path: Path) -> None:
    jobs = [at("a", 1.0 * n, dataloader__num_workers=n) for n in (1, 2)]
    (plain,) = axes_of(tmp_path / "plain", jobs)
    assert "ring" not in plain.charts[0].hint
    mark = {"rule": "other_load", "state": "doubtful", "reason": "the compiler used 30 %"}
    jobs[1]["validity"] = {"state": "doubtful", "marks": [mark]}
    (axis,) = axes_of(tmp_path / "marked", jobs)
    (chart,) = axis.charts
    assert chart.hint.endswith("; what has a ring has repeats that failed, or are doubtful or invalid")
    assert "num_workers=2: median 2.00 MiB/s of 1 repeat, 2.00 to 2.00; doubtful: the compiler used 30 %" in chart.svg
    assert chart.svg.count("var(--doubt-edge)") == 1 > plain.charts[0].svg.count("var(--doubt-edge)")


def test_values_that_are_told_apart_have_places_of_their_own(tmp_path: Path) -> None:
    pairs: list[list[Any]] = [[1, 1.0], [2, "2"], [True, "true"]]
    for place, values in enumerate(pairs):
        (axis,) = axes_of(tmp_path / str(place), [at("a", 1.0 + n, k=value) for n, value in enumerate(values)])
        (chart,) = axis.charts
        places = set(re.findall(r'aria-label="a · k=.*?" .*?transform="translate\(([\d.]+),', chart.svg))
        assert len(places) == 2, values
