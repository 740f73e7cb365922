"""How busy the training loop kept its accelerator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bucketbench.records import Operation, OperationKind
from bucketbench.statistics.windows import Window, by_epoch, by_rank

__all__ = ["MINIMUM_ROUNDS", "accelerator_utilisation_percent"]

MINIMUM_ROUNDS: Final = 6
"""Batches that each worker needs in an epoch. *Source*: ours: two are left out, and four show how they follow."""


def accelerator_utilisation_percent(measured: Sequence[Operation], windows: Sequence[Window]) -> float | str:
    """The share of the running time that the steps take, in per cent, over all measured epochs; or why there is none.

    All workers begin their first batch at once, and the loop waits for one of them: most of the others' come for
    nothing in that wait. A long training meets it once, a short epoch consists of little else. So batches are taken in
    rounds of one a worker. The running time of an epoch, for each rank, begins when the first round has been used and
    ends when the last but one has, so that at both ends as much of the next round is on its way.

    *Source:* MLPerf Storage, "Rules", section 3.3 and "Performance Metrics"
    (https://github.com/mlcommons/storage): total compute time over total running time, the first step's I/O
    excluded, of epochs with thousands of batches, where a round more makes no difference; DLIO, "Metrics".

    Args:
        measured: the records of the measured epochs.
        windows: the measured epochs.
    """
    every = by_epoch(measured)
    if not any(one.kind is OperationKind.STEP for one in measured):
        return "no step was recorded: the model computes nothing"
    busy_s: list[float] = []
    running_s: list[float] = []
    for window in windows:
        for own in by_rank(every.get(window.epoch, ())).values():
            workers = len({one.worker for one in own if one.kind in (OperationKind.FETCH, OperationKind.NEXT)}) or 1
            used = sorted((one for one in own if one.kind is OperationKind.STEP), key=lambda step: step.started_s)
            if not used:
                continue
            rounds = len(used) // workers
            if rounds < MINIMUM_ROUNDS:
                return (
                    f"{len(used)} batches an epoch are too few for {workers} workers: with fewer than {MINIMUM_ROUNDS} "
                    "each, most arrive in the wait for the first. Raise data.num_samples or lower "
                    "dataloader.num_workers"
                )
            last = (rounds - 1) * workers
            busy_s += [step.duration_s for step in used[workers:last]]
            running_s.append(used[last - 1].ended_s - used[workers - 1].ended_s)
    if sum(running_s) <= 0:
        return "no measured epoch with a step was completed"
    # Sorted, because the sum of floats depends on their order and a figure must not.
    return 100 * sum(sorted(busy_s)) / sum(sorted(running_s))
