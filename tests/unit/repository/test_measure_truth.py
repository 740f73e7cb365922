"""The comparison of results with the testbed's log: what agrees and what differs, quantity by quantity."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from bucketbench.records import Operation, OperationKind, Phase
from buckettestbed.serving.log import LoggedRequest

UTILS = Path(__file__).parents[3] / "utils"
OFFSET_S = 1_700_000_000.0
MIB = 1 << 20


@pytest.fixture(autouse=True)
def utils_are_importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(UTILS), *sys.path])


def request(at_s: float, **changes: Any) -> LoggedRequest:
    fields: dict[str, Any] = {
        "number": 1, "dialect": "s3", "operation": "get_object_range", "bucket": "b", "key": "k", "method": "GET",
        "range_start": 0, "range_stop": MIB, "status": 206, "bytes_in": 0, "bytes_out": MIB,
        "arrived_s": OFFSET_S + at_s, "received_s": None, "first_byte_s": 0.1, "end_s": 1.0, "connection": 1,
        "fault": None, "outcome": "whole",
    }  # fmt: skip
    return LoggedRequest(**{**fields, **changes})


def operation(kind: OperationKind, started_s: float, ended_s: float, **changes: Any) -> Operation:
    phase = changes.pop("phase", Phase.MEASURE)
    return Operation(kind=kind, phase=phase, epoch=0, worker=-1, started_s=started_s, ended_s=ended_s, **changes)


def of_epoch(log: list[LoggedRequest], **stated: float) -> dict[str, bool]:
    from truth_measurement.comparison import compared

    values = {"content_mib": 2, "server_bytes_out_mib": 2, "server_requests": 2, "wall_s": 10.0} | stated
    result = {
        "figures": {name: {"value": value} for name, value in values.items()},
        "traffic": {"epoch": {"requests": {"get_object_range": 2}}},
    }
    operations = [
        operation(OperationKind.EPOCH, 0.0, 50.0, phase=Phase.WARMUP), operation(OperationKind.EPOCH, 100.0, 110.0),
    ]  # fmt: skip
    found = compared(result, operations, log, clock_offset_s=OFFSET_S)
    return {one.quantity: one.agrees for one in found}


WHOLE = [request(100.01), request(100.01, range_start=MIB, range_stop=2 * MIB, end_s=9.95)]
BEFORE = request(20.0, range_start=5 * MIB)


def test_what_agrees_agrees() -> None:
    assert of_epoch([BEFORE, *WHOLE]) == dict.fromkeys(
        ("content bytes", "wire bytes", "requests", "by operation", "seconds"), True
    )


@pytest.mark.parametrize(
    ("log", "stated", "quantities"),
    [
        (WHOLE, {"content_mib": 2.01}, {"content bytes"}),
        ([*WHOLE, request(105.0)], {}, {"wire bytes", "requests"}),  # a byte that came twice is one of content
        ([WHOLE[0], request(100.01, end_s=9.95)], {}, {"content bytes"}),
        ([WHOLE[0], request(100.01, range_start=MIB, status=503, end_s=9.95)], {}, {"content bytes"}),
        ([WHOLE[0], request(100.01, range_start=MIB, operation="get_object", end_s=9.95)], {}, {"by operation"}),
        (WHOLE, {"wall_s": 10.3}, {"seconds"}),
        (WHOLE[:1], {}, {"content bytes", "wire bytes", "requests", "by operation", "seconds"}),
    ],
)
def test_what_differs_differs(log: list[LoggedRequest], stated: dict[str, float], quantities: set[str]) -> None:
    assert {name for name, agrees in of_epoch(log, **stated).items() if not agrees} == quantities


def test_a_checkpoint_is_what_all_ranks_save_and_load() -> None:
    from truth_measurement.comparison import compared

    result = {
        "figures": {"wall_s": {"value": 6.0}},
        "traffic": {"save": {"requests": {"put_object": 1}}, "load": {"requests": {"get_object": 1}}},
    }
    counted = {"requests": 1, "wire_bytes": 2 * MIB + 100}
    operations = [
        operation(OperationKind.SAVE, 0.0, 2.0, content_bytes=MIB, **counted),
        operation(OperationKind.SAVE, 0.5, 3.0, content_bytes=MIB, rank=1),
        operation(OperationKind.LOAD, 5.0, 8.0, content_bytes=MIB, **counted),
        operation(OperationKind.LOAD, 5.0, 7.0, content_bytes=MIB, rank=1),
    ]
    put = {"operation": "put_object", "method": "PUT", "status": 200, "bytes_in": 2 * MIB + 100, "bytes_out": 0}
    got = {"operation": "get_object", "status": 200, "bytes_out": 2 * MIB + 100, "range_start": None}
    log = [request(0.0, end_s=3.0, **put), request(4.0), request(5.0, end_s=3.0, **got)]
    found = compared(result, operations, log, clock_offset_s=OFFSET_S)
    assert [one.agrees for one in found] == [True] * 5
    assert {one.quantity: (one.stated, one.logged) for one in found} == {
        "content bytes": (4 * MIB, 4 * MIB + 200), "wire bytes": (4 * MIB + 200, 4 * MIB + 200), "requests": (2, 2),
        "by operation": (2, 2), "seconds": (6.0, 6.0),
    }  # fmt: skip
    missing = compared(result, operations, log[:2], clock_offset_s=OFFSET_S)
    assert not all(one.agrees for one in missing)


def test_a_suffix_is_counted_from_the_end() -> None:
    from truth_measurement.comparison import distinct_bytes

    tail = request(1.0, range_start=-10, range_stop=None, bytes_out=10)
    assert distinct_bytes([tail, request(2.0, range_start=85, bytes_out=10)], {"k": 100}) == 15
