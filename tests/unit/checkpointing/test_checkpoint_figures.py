"""The figures of checkpoints, derived from records whose sums are done by hand."""

from __future__ import annotations

from typing import Any

import pytest

from bucketbench.checkpointing.figures import FIGURES
from bucketbench.records import Operation, OperationKind, Phase, UsageSample
from bucketbench.statistics import ServerCounts

MIB = 1 << 20
STATE_BYTES = 64 * MIB


def operation(kind: OperationKind, step: int, started_s: float, ended_s: float, **fields: Any) -> Operation:
    phase = Phase.WARMUP if step < 0 else Phase.MEASURE
    return Operation(kind=kind, phase=phase, epoch=step, worker=-1, started_s=started_s, ended_s=ended_s, **fields)


def right(kind: OperationKind, step: int, started_s: float, ended_s: float, **fields: Any) -> Operation:
    return operation(kind, step, started_s, ended_s, samples=1, content_bytes=STATE_BYTES, **fields)


def usage(at_s: float, cpu_s: float, rss_mib: int) -> UsageSample:
    return UsageSample(at_s=at_s, cpu_s=cpu_s, rss_bytes=rss_mib * MIB, processes=1)


INDEX = operation(OperationKind.INDEX, -1, 1.0, 1.5)
# Two steps: saves of 0.5 and 1.5 s, loads of 0.25 and 0.25 s, after a warm-up that took long.
OPERATIONS = [
    INDEX,
    right(OperationKind.SAVE, -1, 2.0, 12.0, requests=90, added_memory_bytes=900 * MIB),
    right(OperationKind.LOAD, -1, 12.0, 22.0, requests=90, added_memory_bytes=900 * MIB),
    right(OperationKind.SAVE, 0, 30.0, 30.5, requests=10, added_memory_bytes=20 * MIB),
    right(OperationKind.LOAD, 0, 31.0, 31.25, requests=5, added_memory_bytes=70 * MIB),
    right(OperationKind.SAVE, 1, 32.0, 33.5, requests=12, added_memory_bytes=30 * MIB),
    right(OperationKind.LOAD, 1, 34.0, 34.25, requests=5, added_memory_bytes=80 * MIB),
]
USAGE = [
    usage(0.0, 0.0, 100), usage(0.9, 1.0, 200), usage(29.9, 5.0, 210),
    usage(30.0, 5.0, 210), usage(30.5, 5.2, 245),
    usage(31.0, 6.0, 210), usage(31.25, 6.1, 220),
    usage(32.0, 7.0, 210), usage(33.5, 7.2, 215),
    usage(34.0, 8.0, 210), usage(34.25, 8.3, 220),
]  # fmt: skip


def values(*operations: Operation, server: ServerCounts | None = None) -> dict[str, float | None]:
    return {name: figure.value for name, figure in FIGURES.of_job(operations, USAGE, server=server).items()}


def test_throughput_is_the_states_bytes_over_the_measured_seconds() -> None:
    found = values(*OPERATIONS)
    assert found["save_mibs"] == pytest.approx(128 / 2.0)
    assert found["load_mibs"] == pytest.approx(128 / 0.5)
    assert (found["save_s"], found["load_s"]) == (pytest.approx(1.0), pytest.approx(0.25))
    assert (found["checkpoints"], found["state_mib"], found["errors"]) == (2, 64, 0)
    assert found["wall_s"] == pytest.approx(2.5)


def test_cpu_requests_and_memory_are_told_apart() -> None:
    found = values(*OPERATIONS)
    assert found["save_cpu_s_per_gib"] == pytest.approx(0.4 * 8)
    assert found["load_cpu_s_per_gib"] == pytest.approx(0.4 * 8)
    assert found["cpu_s"] == pytest.approx(0.8)
    assert (found["requests_per_save"], found["requests_per_load"]) == (11, 5)
    assert found["save_memory_mib"] == 45, "a sample of all processes, above the process's own record"
    assert found["load_memory_mib"] == 80, "the process's own record, above the samples"


def test_only_a_save_in_the_background_has_blocked() -> None:
    assert values(*OPERATIONS)["blocked_s"] is values(*OPERATIONS)["copy_s"] is None
    stages = [operation(OperationKind.STAGE, step, 30.0, 30.0 + s) for step, s in ((-1, 9.0), (0, 0.1), (1, 0.3))]
    copies = [operation(OperationKind.COPY, step, 40.0, 40.0 + s) for step, s in ((-1, 9.0), (0, 0.2), (1, 0.4))]
    found = values(*OPERATIONS, *stages, *copies)
    assert found["blocked_s"] == pytest.approx(0.2)
    assert found["copy_s"] == pytest.approx(0.3)


def test_a_checkpoint_that_came_back_wrong_has_no_speed() -> None:
    wrong = [
        operation(OperationKind.SAVE, 0, 30.0, 30.5),
        operation(OperationKind.LOAD, 0, 31.0, 31.25, errors=3),
    ]
    found = FIGURES.of_job([INDEX, *wrong], USAGE)
    assert found["save_mibs"].reason == found["load_mibs"].reason == "no checkpoint was loaded as it was saved"
    assert (found["errors"].value, found["checkpoints"].value) == (3, 0)


def test_nothing_measured_is_no_figure() -> None:
    found = FIGURES.of_job([INDEX], USAGE)
    assert {name: figure.reason for name, figure in found.items() if "save" in name or "load" in name} == dict.fromkeys(
        (name for name in found if "save" in name or "load" in name), "nothing was measured to its end"
    )


def test_the_servers_counts_are_of_saves_and_loads() -> None:
    server = ServerCounts(requests=32, bytes_out=128 * MIB, bytes_in=130 * MIB, requests_s=5.0)
    found = values(*OPERATIONS, server=server)
    assert (found["server_requests"], found["server_bytes_in_mib"], found["server_bytes_out_mib"]) == (32, 130, 128)
    assert found["requests_in_flight"] == pytest.approx(2.0)
    old = FIGURES.of_job(OPERATIONS, USAGE, server=ServerCounts(requests=32, bytes_out=1))["server_bytes_in_mib"]
    assert "did not count" in str(old.reason)


def test_records_without_memory_and_requests_are_read_and_written_as_before() -> None:
    plain = INDEX.to_json()
    assert {"requests", "added_memory_bytes"}.isdisjoint(plain)
    assert Operation.from_json(plain) == INDEX
    assert Operation.from_json(OPERATIONS[3].to_json()) == OPERATIONS[3]
