"""What holds for any numbers: percentiles, intervals, comparisons, records, and figures in any order."""

from __future__ import annotations

import json
import random

import numpy
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from bucketbench.records import Figure, Operation, OperationKind, Phase, UsageSample
from bucketbench.scenarios.dataset.figures import FIGURES
from bucketbench.statistics import (
    CONFIDENCE,
    MIB,
    Comparison,
    MeasuredJob,
    ServerCounts,
    Summary,
    compare,
    interval_obstacle,
    median,
    median_interval,
    percentile,
    summarise,
)

FINITE = st.floats(min_value=-1e9, max_value=1e9)
SPEEDS = st.floats(min_value=1e-3, max_value=1e6)
SECONDS = st.floats(min_value=0, max_value=1e5)

FIGURE = FIGURES.contests[0]


@st.composite
def operations(draw: st.DrawFn) -> Operation:
    started_s = draw(SECONDS)
    return Operation(
        kind=draw(st.sampled_from(OperationKind)),
        phase=draw(st.sampled_from(Phase)),
        epoch=draw(st.integers(0, 3)),
        worker=draw(st.integers(-1, 4)),
        started_s=started_s,
        ended_s=started_s + draw(st.floats(min_value=0, max_value=1e3)),
        samples=draw(st.integers(0, 100)),
        content_bytes=draw(st.integers(0, 2**40)),
        errors=draw(st.integers(0, 5)),
        error=draw(st.none() | st.text(max_size=20)),
        rank=draw(st.integers(0, 2)),
    )


USAGE = st.builds(
    UsageSample,
    at_s=SECONDS,
    cpu_s=SECONDS,
    rss_bytes=st.integers(0, 2**40),
    processes=st.integers(1, 100),
    network_received_bytes=st.none() | st.integers(0, 2**50),
    network_sent_bytes=st.none() | st.integers(0, 2**50),
    gpu_utilisation_percent=st.none() | st.floats(min_value=0, max_value=100),
    gpu_memory_bytes=st.none() | st.integers(0, 2**40),
)


def summary(client: str, speeds: list[float]) -> Summary:
    jobs = [
        MeasuredJob(
            scenario="dataset",
            client=client,
            parameters={},
            repeat=repeat,
            figures={"throughput_mibs": Figure(unit="MiB/s", value=speed)},
        )
        for repeat, speed in enumerate(speeds)
    ]
    (only,) = summarise(jobs, units=FIGURES.units)
    return only


@given(st.lists(FINITE, min_size=1, max_size=50), st.floats(min_value=0, max_value=100))
def test_percentiles_are_numpys(values: list[float], percent: float) -> None:
    assert percentile(values, percent) == pytest.approx(float(numpy.percentile(values, percent)), rel=1e-9, abs=1e-6)
    assert min(values) <= percentile(values, percent) <= max(values)


@given(st.lists(FINITE, min_size=1, max_size=50))
def test_the_median_is_numpys(values: list[float]) -> None:
    assert median(values) == pytest.approx(float(numpy.median(values)), rel=1e-9, abs=1e-6)


@given(operations())
def test_operations_come_back_from_json(operation: Operation) -> None:
    assert Operation.from_json(json.loads(json.dumps(operation.to_json()))) == operation


@given(USAGE)
def test_usage_samples_come_back_from_json(sample: UsageSample) -> None:
    assert UsageSample.from_json(json.loads(json.dumps(sample.to_json()))) == sample


@given(st.builds(Figure, unit=st.text(), value=FINITE) | st.builds(Figure, unit=st.text(), reason=st.text()))
def test_figures_come_back_from_json(figure: Figure) -> None:
    assert Figure.from_json(json.loads(json.dumps(figure.to_json()))) == figure


@given(st.lists(operations(), max_size=30), st.lists(USAGE, max_size=10), st.randoms())
def test_the_order_of_records_changes_nothing(
    recorded: list[Operation], usage: list[UsageSample], shuffler: random.Random
) -> None:
    # Two samples of one moment have no order of their own; a sampler never takes any.
    usage = list({sample.at_s: sample for sample in usage}.values())
    figures = FIGURES.of_job(recorded, usage)
    shuffler.shuffle(recorded)
    shuffler.shuffle(usage)
    assert FIGURES.of_job(recorded, usage) == figures


@given(st.lists(operations(), max_size=30), st.lists(USAGE, max_size=10))
def test_every_figure_is_a_value_or_a_reason(recorded: list[Operation], usage: list[UsageSample]) -> None:
    figures = FIGURES.of_job(recorded, usage, server=ServerCounts(requests=1, bytes_out=2))
    assert {name: figure.unit for name, figure in figures.items()} == FIGURES.units
    assert all((figure.value is None) != (figure.reason is None) for figure in figures.values())
    assert all(figure.value is None or figure.value >= 0 for figure in figures.values())


@given(st.lists(operations(), max_size=30), st.integers(1, 100), SECONDS)
def test_a_failed_fetch_adds_errors_and_nothing_else(recorded: list[Operation], errors: int, at_s: float) -> None:
    failed = Operation(
        kind=OperationKind.FETCH,
        phase=Phase.MEASURE,
        epoch=0,
        worker=0,
        started_s=at_s,
        ended_s=at_s + 1,
        errors=errors,
        error="reset",
    )
    whole = Operation(
        kind=OperationKind.FETCH,
        phase=Phase.MEASURE,
        epoch=0,
        worker=0,
        started_s=0,
        ended_s=1,
        samples=1,
        content_bytes=MIB,
    )
    before, after = FIGURES.of_job([*recorded, whole], []), FIGURES.of_job([*recorded, whole, failed], [])
    assert before["errors"].value is not None
    assert after.pop("errors").value == before.pop("errors").value + errors
    assert after == before


@given(st.lists(SPEEDS, min_size=6, max_size=12))
def test_an_interval_contains_the_median_and_stays_within_the_values(values: list[float]) -> None:
    assume(interval_obstacle(values) is None)
    interval = median_interval(values)
    assert interval.low <= median(values) <= interval.high
    assert {interval.low, interval.high} <= set(values)
    assert interval.confidence >= CONFIDENCE
    assert median_interval(list(reversed(values))) == interval


@given(st.lists(st.tuples(SPEEDS, SPEEDS), min_size=1, max_size=12), st.randoms())
def test_swapping_the_sides_inverts_a_comparison_and_the_order_of_repeats_changes_nothing(
    pairs: list[tuple[float, float]], shuffler: random.Random
) -> None:
    def compared(some: list[tuple[float, float]], *, first: int) -> Comparison:
        ours, theirs = ([pair[side] for pair in some] for side in (first, 1 - first))
        return compare(summary("a", ours), summary("b", theirs), figure=FIGURE)

    one, other = compared(pairs, first=0), compared(pairs, first=1)
    assert one.ratio == pytest.approx(1 / other.ratio, rel=1e-9)
    assert one.repeats == other.repeats == len(pairs)
    assert one.decided == other.decided
    shuffled = list(pairs)
    shuffler.shuffle(shuffled)
    assert compared(shuffled, first=0) == one
    if one.interval is None or other.interval is None:
        assert one.interval is other.interval is None
        assert one.obstacle is not None
        return
    assert one.interval.low == pytest.approx(1 / other.interval.high, rel=1e-9)
    assert one.interval.high == pytest.approx(1 / other.interval.low, rel=1e-9)
    assert one.interval.low <= one.ratio * (1 + 1e-9)
    assert one.ratio <= one.interval.high * (1 + 1e-9)


@given(st.lists(SPEEDS, min_size=1, max_size=7))
def test_a_client_against_itself_is_never_decided(speeds: list[float]) -> None:
    comparison = compare(summary("a", speeds), summary("b", speeds), figure=FIGURE)
    assert comparison.ratio == 1
    assert not comparison.decided


@given(st.lists(SPEEDS, min_size=2, max_size=9))
def test_median_and_spread_cover_every_repeat(speeds: list[float]) -> None:
    throughput = summary("a", speeds).figures["throughput_mibs"]
    assert throughput.median is not None
    assert throughput.spread is not None
    tolerance = 1e-9 * max(speeds)
    assert all(abs(speed - throughput.median) <= throughput.spread + tolerance for speed in speeds)
