"""How busy the training loop kept its accelerator."""

from __future__ import annotations

from collections.abc import Sequence

from bucketbench.records import Operation, OperationKind
from bucketbench.statistics.windows import Window

__all__ = ["accelerator_utilisation_percent"]


def accelerator_utilisation_percent(measured: Sequence[Operation], windows: Sequence[Window]) -> float | str:
    """The share of the running time that the steps take, in per cent, over all measured epochs; or why there is none.

    The running time of an epoch, for each rank, begins with its first step, so that the wait for the first batch does
    not count: a training run of many steps meets it once.

    *Source:* MLPerf Storage, "Rules", section 3.3 and "Performance Metrics"
    (https://github.com/mlcommons/storage): total compute time over total running time, the first step's I/O
    excluded; DLIO, "Metrics".

    Args:
        measured: the records of the measured epochs.
        windows: the measured epochs.
    """
    steps = [operation for operation in measured if operation.kind is OperationKind.STEP]
    if not steps:
        return "no step was recorded: the model computes nothing"
    busy_s: list[float] = []
    running_s: list[float] = []
    for window in windows:
        within = [step for step in steps if step.epoch == window.epoch]
        for rank in {step.rank for step in within}:
            own = [step for step in within if step.rank == rank]
            busy_s += [step.duration_s for step in own]
            running_s.append(window.ended_s - min(step.started_s for step in own))
    if sum(running_s) <= 0:
        return "no measured epoch with a step was completed"
    # Sorted, because the sum of floats depends on their order and a figure must not.
    return 100 * sum(sorted(busy_s)) / sum(sorted(running_s))
