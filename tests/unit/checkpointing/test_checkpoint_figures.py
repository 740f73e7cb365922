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


def test_ranks_save_and_load_together_and_the_slowest_decides() -> None:
    def of_rank(rank: int, late_s: float, memory_mib: int, requests: int | None) -> list[Operation]:
        fields = {"rank": rank, "added_memory_bytes": memory_mib * MIB, "requests": requests}
        return [
            operation(OperationKind.INDEX, -1, 1.0, 1.5, rank=rank),
            right(OperationKind.SAVE, 0, 30.0, 31.0 + late_s, **fields),
            operation(OperationKind.STAGE, 0, 30.0, 30.1 + late_s, rank=rank),
            right(OperationKind.LOAD, 0, 32.0 + late_s, 33.0, **fields),
        ]

    operations = [*of_rank(0, 0.0, 300, 7), *of_rank(1, 0.5, 400, None)]
    samples = [
        UsageSample(at_s=at_s, cpu_s=at_s / 10, rss_bytes=100 * MIB, processes=1, rank=rank)
        for rank in (0, 1)
        for at_s in (0.5, 29.9, 31.6, 31.9, 33.1)
    ]
    found = {name: figure.value for name, figure in FIGURES.of_job(operations, samples, server=None).items()}
    assert found["save_mibs"] == pytest.approx(128 / 1.5)
    assert found["load_mibs"] == pytest.approx(128 / 1.0)
    assert (found["save_s"], found["load_s"]) == (pytest.approx(1.5), pytest.approx(1.0))
    assert found["blocked_s"] == pytest.approx(0.6)
    assert (found["checkpoints"], found["state_mib"]) == (1, 128)
    assert (found["save_memory_mib"], found["requests_per_save"]) == (700, 7)
    assert found["save_cpu_s_per_gib"] == pytest.approx(2 * 0.17 * 8)

    wrong = [*operations[:-1], operation(OperationKind.LOAD, 0, 32.5, 33.0, rank=1, errors=1)]
    found = {name: figure.value for name, figure in FIGURES.of_job(wrong, samples, server=None).items()}
    assert (found["checkpoints"], found["errors"], found["state_mib"]) == (0, 1, None)


def test_what_a_job_did_not_do_has_no_figures_and_says_so() -> None:
    saves = [one for one in OPERATIONS if one.kind is OperationKind.SAVE]
    found = FIGURES.of_job([INDEX, *saves], USAGE)
    assert (found["save_mibs"].value, found["checkpoints"].value, found["state_mib"].value) == (64, 2, 64)
    no_part = "loading was no part of what the job measured"
    absent = {name for name, figure in found.items() if figure.reason == no_part}
    assert absent == {
        "load_mibs", "load_s", "load_cpu_s_per_gib", "load_memory_mib", "requests_per_load", "read_amplification",
    }  # fmt: skip
    loads = [one for one in OPERATIONS if one.kind is OperationKind.LOAD]
    found = FIGURES.of_job([INDEX, *loads], USAGE)
    assert (found["load_mibs"].value, found["checkpoints"].value, found["errors"].value) == (256, 2, 0)
    assert found["save_s"].reason == found["stalled_s"].reason == "saving was no part of what the job measured"


def test_errors_of_what_was_only_saved_count() -> None:
    wrong = operation(OperationKind.SAVE, 0, 30.0, 30.5, errors=3)
    found = FIGURES.of_job([INDEX, wrong], USAGE)
    assert (found["errors"].value, found["checkpoints"].value) == (3, 0)
    assert found["save_mibs"].reason == "no checkpoint was loaded as it was saved"


def test_amplification_is_of_each_byte_once_however_many_ranks_have_it() -> None:
    loads = [
        right(OperationKind.LOAD, 0, 31.0, 31.25, wire_bytes=3 * STATE_BYTES),
        right(OperationKind.LOAD, 0, 31.0, 31.25, rank=1),
    ]
    save = right(OperationKind.SAVE, 0, 30.0, 30.5, wire_bytes=STATE_BYTES + STATE_BYTES // 4)
    found = values(INDEX, save, *loads)
    assert (found["write_amplification"], found["read_amplification"]) == (1.25, 1.5)
    assert values(*OPERATIONS)["read_amplification"] is None
    assert Operation.from_json(save.to_json()) == save


def test_a_stall_is_what_training_waits_for_before_and_after_its_steps() -> None:
    def train(step: int, started_s: float, ended_s: float, **fields: int) -> Operation:
        return operation(OperationKind.TRAIN, step, started_s, ended_s, **fields)

    # Blocked for 0.1 s, trained for 0.2 s, then waited for 0.2 s; on another rank for 0.1 s alone.
    background = [
        right(OperationKind.SAVE, 0, 30.0, 30.5), train(0, 30.1, 30.3),
        right(OperationKind.SAVE, 0, 30.0, 30.2, rank=1), train(0, 30.1, 30.3, rank=1),
    ]  # fmt: skip
    assert values(INDEX, *background)["stalled_s"] == pytest.approx(0.3)
    foreground = [right(OperationKind.SAVE, 0, 30.0, 30.5), train(0, 30.5, 30.9)]
    assert values(INDEX, *foreground)["stalled_s"] == pytest.approx(0.5)
    assert values(*OPERATIONS)["stalled_s"] is None
