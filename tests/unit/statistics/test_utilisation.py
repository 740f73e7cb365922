"""The accelerator's utilisation, against values worked out by hand."""

from __future__ import annotations

import pytest

from bucketbench.records import Operation, OperationKind, Phase
from bucketbench.statistics.utilisation import accelerator_utilisation_percent
from bucketbench.statistics.windows import measured_windows


def operation(
    kind: OperationKind,
    started_s: float,
    ended_s: float,
    *,
    epoch: int = 0,
    rank: int = 0,
    phase: Phase = Phase.MEASURE,
) -> Operation:
    return Operation(
        kind=kind, phase=phase, epoch=epoch, worker=-1, started_s=started_s, ended_s=ended_s, samples=1, rank=rank
    )


def figure(operations: list[Operation]) -> float | str:
    measured = [one for one in operations if one.phase is Phase.MEASURE]
    return accelerator_utilisation_percent(measured, measured_windows(operations))


def test_the_wait_for_the_first_batch_is_left_out_and_every_later_one_counts() -> None:
    epoch = operation(OperationKind.EPOCH, 0, 10)
    steps = [operation(OperationKind.STEP, 2, 4), operation(OperationKind.STEP, 8, 10)]
    assert figure([epoch, *steps]) == pytest.approx(100 * 4 / 8)


def test_an_accelerator_that_never_waits_is_used_in_full() -> None:
    steps = [operation(OperationKind.STEP, start, start + 1) for start in (1, 2, 3)]
    assert figure([operation(OperationKind.EPOCH, 0, 4), *steps]) == pytest.approx(100)


def test_epochs_and_ranks_are_weighed_by_their_time() -> None:
    operations = [
        operation(OperationKind.EPOCH, 0, 10),
        operation(OperationKind.STEP, 0, 5),
        operation(OperationKind.EPOCH, 20, 22, epoch=1),
        operation(OperationKind.STEP, 20, 22, epoch=1),
        operation(OperationKind.EPOCH, 0, 10, rank=1),
        operation(OperationKind.STEP, 0, 10, rank=1),
    ]
    assert figure(operations) == pytest.approx(100 * (5 + 2 + 10) / (10 + 2 + 10))


def test_the_warm_up_does_not_count() -> None:
    operations = [
        operation(OperationKind.STEP, 0, 1, phase=Phase.WARMUP),
        operation(OperationKind.EPOCH, 2, 4),
        operation(OperationKind.STEP, 2, 3),
    ]
    assert figure(operations) == pytest.approx(50)


@pytest.mark.parametrize(
    ("operations", "reason"),
    [
        ([operation(OperationKind.EPOCH, 0, 1)], "computes nothing"),
        ([operation(OperationKind.STEP, 0, 1)], "no measured epoch"),
    ],
)
def test_what_cannot_be_told_says_why(operations: list[Operation], reason: str) -> None:
    assert reason in str(figure(operations))
