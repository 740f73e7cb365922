"""The accelerator's utilisation: against values worked out by hand, and of simulated clients on a simulated clock."""

from __future__ import annotations

import random
from collections import deque
from pathlib import Path

import pytest
import yaml

from bucketbench.records import Operation, OperationKind, Phase
from bucketbench.statistics.utilisation import MINIMUM_ROUNDS, accelerator_utilisation_percent
from bucketbench.statistics.windows import measured_windows
from bucketbench.units import parse_count

WORKLOADS = [
    path
    for path in sorted((Path(__file__).parents[3] / "conf" / "workload").glob("*.yaml"))
    if "model" in yaml.safe_load(path.read_text())  # others have no accelerator
]


def operation(
    kind: OperationKind,
    started_s: float,
    ended_s: float,
    *,
    epoch: int = 0,
    rank: int = 0,
    worker: int = -1,
    phase: Phase = Phase.MEASURE,
) -> Operation:
    return Operation(
        kind=kind, phase=phase, epoch=epoch, worker=worker, started_s=started_s, ended_s=ended_s, samples=1, rank=rank
    )


def steps(*times_s: tuple[float, float], epoch: int = 0, rank: int = 0) -> list[Operation]:
    """The steps between pairs of times, the first of which ends the round that is left out, and their epoch."""
    found = [operation(OperationKind.STEP, start, end, epoch=epoch, rank=rank) for start, end in times_s]
    return [operation(OperationKind.EPOCH, times_s[0][0], times_s[-1][1], epoch=epoch, rank=rank), *found]


def figure(operations: list[Operation]) -> float | str:
    measured = [one for one in operations if one.phase is Phase.MEASURE]
    return accelerator_utilisation_percent(measured, measured_windows(operations))


def test_the_first_and_the_last_round_are_left_out_and_every_wait_between_them_counts() -> None:
    epoch = steps((50, 60), (60, 61), (63, 64), (64, 65), (69, 70), (90, 99))
    assert figure(epoch) == pytest.approx(100 * 4 / 10)


def test_an_accelerator_that_never_waits_is_used_in_full() -> None:
    assert figure(steps((1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 7))) == pytest.approx(100)


def test_rounds_have_one_batch_a_worker_and_what_is_left_at_the_end_is_no_round() -> None:
    fetches = [operation(OperationKind.FETCH, 0, 1, worker=worker) for worker in (0, 1)]
    # Two workers: 2 steps are left out, 8 in 16 s count, and those after them and after a long wait do not.
    counted = [(3.0 + 2 * n, 4.0 + 2 * n) for n in range(8)]
    times_s = [(0.0, 1.0), (1.0, 2.0), *counted, (80.0, 81.0), (81.0, 82.0), (90.0, 91.0)]
    assert figure([*steps(*times_s), *fetches]) == pytest.approx(100 * 8 / 16)


def test_epochs_and_ranks_are_weighed_by_their_time() -> None:
    whole = [(float(n), n + 1.0) for n in range(6)]
    half = [(2.0 * n, 2 * n + 1.0) for n in range(6)]
    later = [(20 + start, 20 + end) for start, end in half]
    operations = [*steps(*whole), *steps(*half, rank=1), *steps(*later, epoch=1)]
    assert figure(operations) == pytest.approx(100 * (4 + 4 + 4) / (4 + 8 + 8))


def test_the_warm_up_does_not_count() -> None:
    warm_up = operation(OperationKind.STEP, 0, 1, phase=Phase.WARMUP)
    assert figure([warm_up, *steps(*((2.0 * n, 2 * n + 1.0) for n in range(1, 7)))]) == pytest.approx(50)


@pytest.mark.parametrize(
    ("operations", "reason"),
    [
        ([operation(OperationKind.EPOCH, 0, 1)], "computes nothing"),
        ([operation(OperationKind.STEP, 0, 1)], "no measured epoch"),
        (steps((0, 1), (1, 2), (2, 3), (3, 4), (4, 5)), "5 batches an epoch are too few for 1 workers"),
    ],
)
def test_what_cannot_be_told_says_why(operations: list[Operation], reason: str) -> None:
    assert reason in str(figure(operations))


class SimulatedEpoch:
    """A DataLoader's epoch on a simulated clock: workers fetch their batches one after another, the loop uses them in
    order, and a batch that was taken has another one asked for.

    Args:
        workers: processes that fetch.
        prefetch: batches asked of each worker in advance.
        batches: of the epoch.
        compute_s: of a step.
        share: part of the demand that the client delivers, all workers together.
        shared: whether the workers share one bandwidth, so that one alone is as fast as all of them; else each has its
            own latency, whatever the others do.
        jitter: by what part a batch may take longer or shorter.
    """

    def __init__(
        self,
        *,
        workers: int,
        prefetch: int,
        batches: int,
        compute_s: float,
        share: float,
        shared: bool,
        jitter: float,
    ) -> None:
        draws = random.Random(7)
        scale = 1 if shared else workers
        self._work_s = [scale * compute_s / share * (1 + draws.uniform(-jitter, jitter)) for _ in range(batches)]
        self._shared = shared
        self._workers = workers
        self._queues: list[deque[int]] = [deque() for _ in range(workers)]
        self._begun_s: dict[int, float] = {}
        self._done: set[int] = set()
        self._asked = 0
        self._now_s = 0.0
        self.operations: list[Operation] = []
        for _ in range(prefetch * workers):
            self._ask()
        for batch in range(batches):
            while batch not in self._done:
                self._advance(until_s=float("inf"))
            self._ask()
            started_s = self._now_s
            while self._now_s < started_s + compute_s:
                self._advance(until_s=started_s + compute_s)
            self.operations.append(operation(OperationKind.STEP, started_s, self._now_s))
        self.operations.append(operation(OperationKind.EPOCH, 0, self._now_s))

    def _ask(self) -> None:
        if self._asked < len(self._work_s):
            self._queues[self._asked % self._workers].append(self._asked)
            self._asked += 1

    def _advance(self, *, until_s: float) -> None:
        """Let the workers go on until the next batch is there, or until a moment."""
        active = [(worker, queue[0]) for worker, queue in enumerate(self._queues) if queue]
        slowness = len(active) if self._shared else 1
        for _, batch in active:
            self._begun_s.setdefault(batch, self._now_s)
        next_s = min((self._now_s + self._work_s[batch] * slowness for _, batch in active), default=until_s)
        passed_s = min(next_s, until_s) - self._now_s
        self._now_s = min(next_s, until_s)
        for worker, batch in active:
            self._work_s[batch] -= passed_s / slowness
            if self._work_s[batch] < 1e-9:
                self._queues[worker].popleft()
                self._done.add(batch)
                started_s = self._begun_s[batch]
                self.operations.append(operation(OperationKind.FETCH, started_s, self._now_s, worker=worker))


def simulated(path: Path, share: float, *, shared: bool, jitter: float) -> float:
    workload = yaml.safe_load(path.read_text())
    loader = workload["dataloader"]
    epoch = SimulatedEpoch(
        workers=loader["num_workers"],
        prefetch=2,
        batches=-(-parse_count(workload["data"]["num_samples"]) // loader["batch_size"]),
        compute_s=workload["model"]["options"]["compute_time_s"],
        share=share,
        shared=shared,
        jitter=jitter,
    )
    found = figure(epoch.operations)
    assert isinstance(found, float), found
    return found


@pytest.mark.parametrize("path", WORKLOADS, ids=lambda path: path.stem)
@pytest.mark.parametrize("shared", [True, False], ids=["bandwidth", "latency"])
@pytest.mark.parametrize("jitter", [0.0, 0.1, 0.2])
def test_a_client_that_delivers_a_third_of_the_demand_reads_30_to_36_with_every_workload(
    path: Path, shared: bool, jitter: float
) -> None:
    assert 30 <= simulated(path, 1 / 3, shared=shared, jitter=jitter) <= 36
    assert simulated(path, 2.0, shared=shared, jitter=jitter) > 99
    assert 45 <= simulated(path, 0.5, shared=shared, jitter=jitter) <= 55


@pytest.mark.parametrize("workers", [1, 3, 8])
@pytest.mark.parametrize("rest", [0, 1, 2])
def test_the_number_of_workers_and_an_epoch_that_ends_within_a_round_change_nothing(workers: int, rest: int) -> None:
    epoch = SimulatedEpoch(
        workers=workers,
        prefetch=2,
        batches=MINIMUM_ROUNDS * workers + rest % workers,
        compute_s=0.25,
        share=1 / 3,
        shared=False,
        jitter=0.05,
    )
    assert 30 <= figure(epoch.operations) <= 36


def test_an_epoch_that_is_little_more_than_what_is_asked_for_at_once_has_no_figure() -> None:
    epoch = SimulatedEpoch(workers=8, prefetch=2, batches=10, compute_s=0.224, share=0.29, shared=True, jitter=0.0)
    assert str(figure(epoch.operations)).startswith("10 batches an epoch are too few for 8 workers")
