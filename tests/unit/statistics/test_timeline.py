"""What arrived in each second, and memory over time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketbench.records import Operation, OperationKind, Phase, UsageSample
from bucketbench.statistics.timeline import (
    SEGMENT_S,
    in_segments_of,
    memory_over_time,
    operation_windows,
    throughput_over_time,
)


def operation(kind: OperationKind, started_s: float, ended_s: float, content_bytes: int = 0, **more: int) -> Operation:
    return Operation(
        kind=kind,
        phase=Phase.MEASURE,
        worker=0,
        started_s=started_s,
        ended_s=ended_s,
        content_bytes=content_bytes,
        **{"epoch": 0, **more},
    )


def rates(operations: list[Operation], kind: OperationKind = OperationKind.FETCH) -> list[tuple[float, float]]:
    found = in_segments_of(SEGMENT_S, throughput_over_time(operations, kind, lambda one: one.content_bytes))
    return [(segment.start_s, segment.rate) for segment in found]


def test_an_operation_is_spread_over_its_seconds() -> None:
    epoch = operation(OperationKind.EPOCH, 5.0, 8.0)
    fetch = operation(OperationKind.FETCH, 5.5, 7.5, content_bytes=200)
    assert rates([fetch, epoch]) == [(0.0, 50.0), (1.0, 100.0), (2.0, 50.0)]


def test_time_between_two_epochs_does_not_count() -> None:
    operations = [
        operation(OperationKind.EPOCH, 0.0, 1.5, epoch=0),
        operation(OperationKind.FETCH, 0.0, 1.5, 150, epoch=0),
        operation(OperationKind.EPOCH, 4.5, 6.0, epoch=1),
        operation(OperationKind.FETCH, 4.5, 6.0, 150, epoch=1),
    ]
    assert rates(operations) == [(0.0, 100.0), (1.0, 100.0), (4.0, 100.0), (5.0, 100.0)]


def test_the_end_of_a_job_is_no_second_of_its_own_where_it_is_short() -> None:
    assert rates([operation(OperationKind.EPOCH, 0.0, 2.05), operation(OperationKind.FETCH, 0.0, 2.0, 200)]) == [
        (0.0, 100.0),
        (1.0, 100.0),
    ]
    ((_, rate),) = rates([operation(OperationKind.EPOCH, 0.0, 0.05), operation(OperationKind.FETCH, 0.0, 0.05, 5)])
    assert rate == pytest.approx(100.0)


def test_checkpoints_have_no_epochs_and_one_origin() -> None:
    operations = [
        operation(OperationKind.SAVE, 1.0, 2.0, 100),
        operation(OperationKind.LOAD, 3.0, 4.0, 300),
    ]
    assert rates(operations, OperationKind.SAVE) == [(0.0, 100.0)]
    assert rates(operations, OperationKind.LOAD) == [(2.0, 300.0)]
    assert operation_windows(operations, OperationKind.STAGE) == []
    assert rates(operations, OperationKind.STAGE) == []


def test_warm_up_does_not_count() -> None:
    warm = Operation(
        kind=OperationKind.FETCH,
        phase=Phase.WARMUP,
        epoch=-1,
        worker=0,
        started_s=-3.0,
        ended_s=-1.0,
        content_bytes=1000,
    )
    epoch = operation(OperationKind.EPOCH, 0.0, 1.0)
    assert rates([warm, epoch]) == [(0.0, 0.0)]


@given(
    fetches=st.lists(
        st.tuples(st.floats(0, 9), st.floats(0, 1), st.integers(0, 10**9)).map(
            lambda made: operation(OperationKind.FETCH, made[0], made[0] + made[1], made[2])
        )
    )
)
def test_nothing_is_lost_or_counted_twice(fetches: list[Operation]) -> None:
    segments = throughput_over_time(
        [*fetches, operation(OperationKind.EPOCH, 0.0, 10.0)], OperationKind.FETCH, lambda one: one.content_bytes
    )
    assert sum(segment.amount for segment in segments) == pytest.approx(sum(one.content_bytes for one in fetches))
    assert sum(segment.measured_s for segment in segments) == pytest.approx(10.0)
    longer = in_segments_of(4.0, segments)
    assert [segment.start_s for segment in longer] == [0.0, 4.0, 8.0]
    assert sum(segment.amount for segment in longer) == pytest.approx(sum(segment.amount for segment in segments))


def sample(at_s: float, rss_bytes: int, rank: int = 0) -> UsageSample:
    return UsageSample(at_s=at_s, cpu_s=0.0, rss_bytes=rss_bytes, processes=1, rank=rank)


def test_memory_is_the_highest_of_each_stretch_and_of_all_ranks_together() -> None:
    epoch = operation(OperationKind.EPOCH, 10.0, 11.0)
    samples = [
        sample(9.0, 99),  # before anything was measured
        sample(10.0, 1),
        sample(10.1, 3),
        sample(10.1, 10, rank=1),
        sample(10.6, 2),
        sample(10.7, 20, rank=1),
        sample(10.9, 5),  # rank 1 has no sample there
    ]
    found = memory_over_time([epoch], samples)
    assert [(moment.start_s, moment.memory_bytes) for moment in found] == [(0.0, 13), (0.5, 22)]
    assert memory_over_time([], samples) == []


def test_a_long_job_has_as_many_moments_as_asked_for() -> None:
    epoch = operation(OperationKind.EPOCH, 0.0, 1000.0)
    found = memory_over_time([epoch], [sample(at, at) for at in range(1000)], most=10)
    assert [moment.memory_bytes for moment in found] == [99 + 100 * number for number in range(10)]
