"""Repeats put together, clients compared, and when nobody has won."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from statistics_records import measured_job

from bucketbench.records import Figure
from bucketbench.scenarios.dataset.figures import FIGURES
from bucketbench.statistics import (
    Better,
    Contest,
    IncomparableError,
    Interval,
    Role,
    Status,
    Summary,
    Verdict,
    compare,
    hold_contests,
    summarise,
)

FIGURE = FIGURES.contests[0]


def summary(client: str, throughputs: Sequence[float | None], **changes: Any) -> Summary:
    jobs = [measured_job(client, repeat, value, **changes) for repeat, value in enumerate(throughputs)]
    (only,) = summarise(jobs, units=FIGURES.units)
    return only


def hold_contest(summaries: Sequence[Summary], *, figure: str) -> Contest:
    """The only contest between clients of one style."""
    (only,) = hold_contests(summaries, figure=figure)
    return only


def test_median_and_spread_are_of_the_repeats_that_succeeded() -> None:
    partial = summary("a", [10, 14, None, 11])
    throughput = partial.figures["throughput_mibs"]
    assert (throughput.median, throughput.spread) == (11, 3)
    assert (partial.status, partial.repeats, partial.failures) == (Status.PARTIAL, 4, ("killed",))


def test_one_repeat_has_no_spread_and_fewer_than_six_no_interval() -> None:
    assert summary("a", [10]).figures["throughput_mibs"].spread is None
    assert summary("a", [10, 11]).figures["throughput_mibs"].spread == 0.5
    five = summary("a", [10, 11, 12, 13, 14]).figures["throughput_mibs"]
    assert five.interval() == "a statement at 95% confidence needs 6 repeats, got 5"
    assert summary("a", [None]).figures["throughput_mibs"].interval() == "no repeat succeeded"
    six = summary("a", [10, 11, 12, 13, 14, 15]).figures["throughput_mibs"].interval()
    assert six == Interval(low=10, high=15, confidence=1 - 2 / 64)


def test_a_failed_client_has_reasons_and_its_errors() -> None:
    failed = summary("a", [None, None])
    assert failed.status is Status.FAILED
    assert failed.figures["throughput_mibs"].reason == "no repeat succeeded"
    assert failed.errors.reason == "left out by the test"


def test_errors_are_summed_over_all_repeats() -> None:
    errors = {"errors": Figure(unit="samples", value=2)}
    jobs = [replace(measured_job("a", repeat, value), figures=errors) for repeat, value in enumerate([10.0, None])]
    (both,) = summarise(jobs, units=FIGURES.units)
    assert both.errors.value == 4


def test_parameter_sets_stay_apart() -> None:
    jobs = [measured_job("a", 0, 10.0, parameters={"workers": workers}) for workers in (1, 2)]
    assert [found.parameters["workers"] for found in summarise(jobs, units=FIGURES.units)] == [1, 2]


def test_the_same_repeat_twice_is_refused() -> None:
    with pytest.raises(IncomparableError, match="repeat 0 of client 'a' is there more than once"):
        summarise([measured_job("a", 0, 10.0), measured_job("a", 0, 11.0)], units=FIGURES.units)


def test_mixed_units_are_refused() -> None:
    other = {"throughput_mibs": Figure(unit="MB/s", value=1)}
    with pytest.raises(IncomparableError, match="MB/s and in MiB/s"):
        summarise([measured_job("a", 0, 10.0), replace(measured_job("a", 1, 10.0), figures=other)], units=FIGURES.units)


def test_the_fastest_wins_with_its_margin_over_the_second() -> None:
    contest = hold_contest(
        [
            summary("slow", [1, 1.1, 0.9, 1, 1, 1]),
            summary("fast", [10, 11, 9, 10, 10, 10]),
            summary("middle", [5, 5.6, 4.4, 5, 5, 5]),
        ],
        figure=FIGURE,
    )
    assert contest.verdict is Verdict.WON
    assert contest.winner is not None
    assert [entry.client for entry in contest.ranking] == ["fast", "middle", "slow"]
    assert contest.winner.client == "fast"
    assert contest.margin is not None
    assert contest.margin.denominator == "middle"
    assert contest.margin.ratio == pytest.approx(2 * (1.1 / 1.12 * 0.9 / 0.88) ** (1 / 6))
    assert contest.margin.interval is not None
    assert contest.margin.interval.low == pytest.approx(2 * 1.1 / 1.12)
    assert contest.margin.interval.high == pytest.approx(2 * 0.9 / 0.88)
    assert contest.margin.interval.confidence == 1 - 2 / 64
    assert contest.rival == contest.margin


def test_an_interval_that_includes_one_is_undecided() -> None:
    contest = hold_contest([summary("a", [10, 12, 8, 11, 9, 10]), summary("b", [9.5, 8, 12, 9, 11, 9])], figure=FIGURE)
    assert contest.verdict is Verdict.UNDECIDED
    assert contest.winner is None
    assert contest.margin is not None
    assert contest.margin.interval is not None
    assert 1.0 in contest.margin.interval


@pytest.mark.parametrize("repeats", [1, 2, 5])
def test_too_few_repeats_are_undecided_however_large_the_margin(repeats: int) -> None:
    fast, slow = [1000.0 + n for n in range(repeats)], [1 + n / 7 for n in range(repeats)]
    contest = hold_contest([summary("a", fast), summary("b", slow)], figure=FIGURE)
    assert contest.verdict is Verdict.UNDECIDED
    assert contest.margin is not None
    assert contest.margin.interval is None
    assert contest.margin.obstacle == f"a statement at 95% confidence needs 6 repeats, got {repeats}"


def test_ratios_that_do_not_vary_at_all_are_undecided_with_the_reason() -> None:
    speeds = [10.0, 11.0, 12.0, 13.0, 14.0, 15.0]
    comparison = compare(summary("a", speeds), summary("b", [speed / 3 for speed in speeds]), figure=FIGURE)
    assert comparison.ratio == pytest.approx(3)
    assert not comparison.decided
    assert comparison.obstacle == "all 6 repeats gave the same value, so that nothing tells how they vary"


def test_repeats_that_only_one_of_two_has_are_left_out_and_without_any_in_common_nothing_is_decided() -> None:
    longer = summary("a", [10, 20, 30, 40, 50, 61, 70, 80])
    shorter = summary("b", [5, 10, 15, 20, 25, 30])
    assert compare(longer, shorter, figure=FIGURE).repeats == 6
    assert compare(longer, shorter, figure=FIGURE).interval == Interval(
        low=pytest.approx(2), high=pytest.approx(61 / 30), confidence=1 - 2 / 64
    )
    late = [measured_job("c", repeat, 10.0) for repeat in range(10, 16)]
    (later,) = summarise(late, units=FIGURES.units)
    apart = compare(longer, later, figure=FIGURE)
    assert (apart.repeats, apart.ratio, apart.interval) == (0, 4.5, None)
    assert apart.obstacle == "a statement at 95% confidence needs 6 repeats, got 0"


def test_clients_of_two_styles_hold_two_contests_and_those_of_one_library_face_the_best_of_another() -> None:
    def of(client: str, library: str, style: str, speed: float) -> Summary:
        speeds = [speed + n * len(client) % 3 for n in range(6)]
        return summary(client, speeds, library=library, details={"style": style})

    stream, other = hold_contests(
        [
            of("their-map", "theirs", "map", 50),
            of("our-other-map", "ours", "map", 90),
            of("our-map", "ours", "map", 100),
            of("our-stream", "ours", "iterable", 200),
        ],
        figure=FIGURE,
    )
    assert (stream.style, stream.verdict, stream.rival) == ("iterable", Verdict.UNCONTESTED, None)
    assert (other.style, other.ranking[0].client) == ("map", "our-map")
    assert other.margin is not None
    assert other.margin.denominator == "our-other-map"
    assert other.rival is not None
    assert other.rival.denominator == "their-map"


def test_pairing_sees_through_what_slows_both() -> None:
    # The host slows down from repeat to repeat, and the second client is always a tenth behind.
    values = [100.0, 70.0, 50.0, 30.0, 20.0, 10.0]
    behind = [value / (1.1 + n / 1000) for n, value in enumerate(values)]
    paired = compare(summary("a", values), summary("b", behind), figure=FIGURE)
    assert paired.decided
    assert paired.interval is not None
    assert paired.interval.low == pytest.approx(1.1)
    assert paired.interval.high == pytest.approx(1.105)


def test_references_and_clients_with_failures_take_no_part() -> None:
    contest = hold_contest(
        [
            summary("raw", [100, 100, 100], role=Role.REFERENCE),
            summary("flaky", [50, None, 50]),
            summary("a", [10, 10, 10]),
            summary("b", [5, 5, 5]),
        ],
        figure=FIGURE,
    )
    assert [entry.client for entry in contest.ranking] == ["a", "b"]
    assert [entry.client for entry in contest.excluded] == ["flaky"]


def test_one_contestant_is_uncontested_and_none_is_no_contest() -> None:
    assert hold_contest([summary("a", [1, 1, 1])], figure=FIGURE).verdict is Verdict.UNCONTESTED
    assert hold_contest([summary("a", [None])], figure=FIGURE).verdict is Verdict.NO_CONTEST


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"scenario": "listing"}, "scenarios 'dataset' and 'listing'"),
        ({"parameters": {"network": "off"}}, "network is 'regional' and 'off'"),
        ({"parameters": {}}, "network is 'regional' and 'absent'"),
    ],
)
def test_what_is_not_comparable_is_refused(changes: dict[str, Any], message: str) -> None:
    one, other = summary("a", [1, 1, 1]), summary("b", [1, 1, 1], **changes)
    with pytest.raises(IncomparableError, match=message):
        compare(one, other, figure=FIGURE)
    with pytest.raises(IncomparableError, match=message):
        hold_contest([one, other], figure=FIGURE)


def test_a_figure_that_nobody_has_is_refused() -> None:
    with pytest.raises(IncomparableError, match="no figure 'speed'"):
        compare(summary("a", [1]), summary("b", [1]), figure="speed")
    with pytest.raises(IncomparableError, match="a has no cpu_s above 0"):
        compare(summary("a", [1]), summary("b", [1]), figure="cpu_s")


def test_the_lower_value_wins_where_lower_is_better() -> None:
    slow = summary("slow", [10.0, 10.1, 9.9, 10.0, 10.2, 9.8])
    fast = summary("fast", [5.0, 5.1, 4.9, 5.0, 5.2, 4.8])
    (contest,) = hold_contests([slow, fast], figure=FIGURE, better=Better.LOWER)
    assert (contest.winner, contest.figure) == (fast, FIGURE)
    assert contest.margin is not None
    assert (contest.margin.numerator, contest.margin.denominator) == ("fast", "slow")
    assert contest.margin.ratio == pytest.approx(2, rel=0.02)
    (reverse,) = hold_contests([slow, fast], figure=FIGURE)
    assert reverse.winner is slow


def test_the_best_median_does_not_win_with_an_interval_below_one() -> None:
    # A little ahead in seven repeats, and far behind in six.
    unsteady = summary("unsteady", [10.1] * 7 + [0.1, 0.11, 0.12, 0.13, 0.14, 0.15])
    contest = hold_contest([unsteady, summary("steady", [10.0] * 13)], figure=FIGURE)
    assert contest.ranking[0].client == "unsteady"
    assert contest.margin is not None
    assert contest.margin.interval is not None
    assert contest.margin.interval.high < 1
    assert (contest.verdict, contest.winner) == (Verdict.UNDECIDED, None)
