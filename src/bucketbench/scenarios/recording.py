"""What a scenario writes down while it runs: operations, usage at the edges, and how far it is."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Protocol, Self

from bucketbench.job.description import HARNESS_VARIABLE, JOB_VARIABLE, OPERATIONS_FILE, PROGRESS_FILE, USAGE_FILE
from bucketbench.ranks import Ranks
from bucketbench.records import Operation, OperationKind, Phase
from bucketbench.scenarios.verification import VerificationCounts
from bucketbench.statistics import ServerCounts
from bucketbench.telemetry import OtherProcesses, UsageSampler

__all__ = ["WARMUP", "MeasuredScenario", "Measurement", "Recorder", "operation"]

WARMUP: Final = -1
"""The number of the epoch that is not measured."""

_MAIN_PROCESS: Final = -1

_PROGRESS_INTERVAL_S: Final = 1.0  # often enough for a reader's eyes, too seldom to cost the measured loop anything


class Recorder:
    """Collects a job's raw records and writes them into its directory.

    Operations are kept in memory and written by ``flush``, which a scenario calls between epochs, so that no measured
    second is spent on a file. Not for use by several threads.
    """

    def __init__(self, directory: Path, *, rank: int = 0, sees_others: bool = True) -> None:
        """Record what a rank does into ``directory``, which exists.

        Args:
            directory: where the records go.
            rank: the rank's number.
            sees_others: whether it is the rank of its machine that records what other processes use.
        """
        self._directory = directory
        self._rank = rank
        self._pending: list[Operation] = []
        self._written = 0
        self._usage = _sampler(directory, sees_others=sees_others)
        self._progress_after_s = 0.0

    def __enter__(self) -> Self:
        self._usage.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.flush()
        self._usage.__exit__(kind, error, trace)

    @property
    def memory_kind(self) -> str:
        """``pss`` or ``rss``: how the usage samples count a page that several processes share."""
        return self._usage.memory_kind

    @property
    def written(self) -> dict[str, int]:
        """How many lines each file of raw records has, by its name: who reads fewer reads a file that was cut."""
        return {OPERATIONS_FILE: self._written, USAGE_FILE: self._usage.written}

    def add(self, operations: Iterable[Operation]) -> None:
        """Keep operations for the next ``flush``."""
        self._pending.extend(operations)

    def flush(self) -> None:
        """Append what was kept to ``operations.jsonl``."""
        if not self._pending:
            return
        lines = "".join(f"{json.dumps({**operation.to_json(), 'rank': self._rank})}\n" for operation in self._pending)
        with (self._directory / OPERATIONS_FILE).open("a", encoding="utf-8") as file:
            file.write(lines)
        self._written += len(self._pending)
        self._pending.clear()

    def mark_edge(self) -> None:
        """Take a usage sample now: call it right before and right after what is measured."""
        self._usage.sample()

    def progress(self, *, stage: str, done: int, total: int, force: bool = False) -> None:
        """Leave word of how far the job is, at most once a second, for the sweep's process to show.

        Args:
            stage: what is being done, such as ``epoch 1 of 2``.
            done: samples, or what else the scenario counts, so far.
            total: how many there are in all.
            force: whether to write though the last word is less than a second old.
        """
        now_s = time.monotonic()
        if now_s < self._progress_after_s and not force:
            return
        self._progress_after_s = now_s + _PROGRESS_INTERVAL_S
        word = json.dumps({"stage": stage, "done": done, "total": total})
        # Renamed into place, so that a reader never sees half of it.
        unfinished = self._directory / f".{PROGRESS_FILE}"
        unfinished.write_text(word, encoding="utf-8")
        unfinished.replace(self._directory / PROGRESS_FILE)


def _sampler(directory: Path, *, sees_others: bool) -> UsageSampler:
    path = directory / USAGE_FILE
    if not sees_others:
        return UsageSampler(path)
    job, harness = os.environ.get(JOB_VARIABLE), tuple(map(int, os.environ.get(HARNESS_VARIABLE, "").split()))
    others = OtherProcesses(mark=None if job is None else f"{JOB_VARIABLE}={job}", harness=harness)
    return UsageSampler(path, others=others, harness=harness)


@dataclass(frozen=True, kw_only=True, slots=True)
class Measurement:
    """What a measured job tells beside its records.

    Args:
        verification: what arrived, compared with what should have.
        server: what the server counted while it was measured, None where it tells nothing.
        details: how it was measured, for the results.
    """

    verification: VerificationCounts
    server: ServerCounts | None
    details: Mapping[str, str]


class MeasuredScenario(Protocol):
    """A scenario's measurement: a function."""

    def __call__(self, job: Mapping[str, Any], recorder: Recorder, ranks: Ranks, /) -> Measurement:
        """Warm up, measure and check one client, in this process and those that it starts.

        Args:
            job: the fields of the scenario's own kind of job.
            recorder: takes the raw records.
            ranks: which of the job's ranks this process is; they are a process group already.

        Returns:
            What was found. Where there are several ranks, that of the first one counts for all of them.

        Raises:
            Exception: whatever the client raises; the job has failed then.
        """


def operation(kind: OperationKind, epoch: int, started_s: float, ended_s: float, **measured: Any) -> Operation:
    """What the measured process did itself, without a worker.

    Args:
        kind: what it was.
        epoch: its number, from 0, or ``WARMUP``.
        started_s: by ``time.monotonic``.
        ended_s: likewise.
        measured: further fields of the record.
    """
    return Operation(
        kind=kind,
        phase=Phase.WARMUP if epoch == WARMUP else Phase.MEASURE,
        epoch=epoch,
        worker=_MAIN_PROCESS,
        started_s=started_s,
        ended_s=ended_s,
        **measured,
    )
