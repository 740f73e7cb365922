"""Hands jobs to Hydra's launcher, and sees to it that each of them leaves results."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn, JobStatus
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, open_dict

from bucketbench.job.composed import settings_of
from bucketbench.job.description import (
    CLOCK_FILE,
    JOB_FILE,
    LOG_FILE,
    OPERATIONS_FILE,
    OUTCOME_FILE,
    PROGRESS_FILE,
    USAGE_FILE,
    rank_directories,
)
from bucketbench.progress import is_watched, say, show_sweep
from bucketbench.reasons import reason_of
from bucketbench.results.files import JOB_RESULTS_FILE
from bucketbench.results.job import JobResult, job_result
from bucketbench.results.record import RunRecord, now
from bucketbench.secrecy import secret_values
from bucketbench.sweep.jobs import ComposedLoader, Jobs
from bucketbench.sweep.remaining import Remaining

__all__ = ["Launching"]

_LINE_INTERVAL_S: Final = 10.0  # between lines of progress where there is no terminal

_JOB_FILES: Final = (
    JOB_RESULTS_FILE, CLOCK_FILE, JOB_FILE, LOG_FILE, OPERATIONS_FILE, OUTCOME_FILE, PROGRESS_FILE, USAGE_FILE,
)  # fmt: skip


class Launching:
    """Launches the jobs of a sweep.

    Args:
        context: Hydra's.
        task_function: what runs a job.
        config: the configuration that all points have in common, Hydra's node included.
        jobs: of the sweep.
        jobs_at_once: how many jobs the launcher gets at once; None for all.
        results: those of the jobs that are over already.
    """

    def __init__(
        self,
        context: HydraContext,
        task_function: TaskFunction,
        config: DictConfig,
        jobs: Jobs,
        *,
        jobs_at_once: int | None,
        results: Sequence[JobResult] = (),
    ) -> None:
        self._jobs = jobs
        self._directory = Path(str(config.hydra.sweep.dir))
        self._at_once = jobs_at_once
        self._launcher = Plugins.instance().instantiate_launcher(
            hydra_context=HydraContext(
                config_loader=ComposedLoader(jobs, context.config_loader), callbacks=context.callbacks
            ),
            task_function=task_function,
            config=config,
        )
        clients = [settings.client.name for settings in jobs.settings()]
        self._remaining = Remaining(jobs.kinds, [clients[kind] for kind in jobs.kinds])
        for result in results:
            self._remaining.end(result.number, took_s=result.took_s, ok=result.ok)

    def run(self, numbers: Sequence[int]) -> list[JobReturn]:
        """Launch jobs, and return what the launcher returned of each.

        Args:
            numbers: of the jobs, ascending. What an earlier attempt at one has left is removed when its turn comes.

        Raises:
            KeyboardInterrupt: as it arrives. The job that was under way has its results, failed, where it had begun.
        """
        returns: list[JobReturn] = []
        told_s = time.monotonic()
        with self._shown():
            for batch in _batches(numbers, self._at_once):
                returns += self._launch(batch)
                if not is_watched() and self._remaining.jobs_left and time.monotonic() - told_s >= _LINE_INTERVAL_S:
                    told_s = time.monotonic()
                    say(self._remaining.text())
        return returns

    @contextmanager
    def _shown(self) -> Iterator[None]:
        show_sweep(self._remaining.text)
        try:
            yield
        finally:
            show_sweep(None)

    def _launch(self, batch: Sequence[int]) -> list[JobReturn]:
        for number in batch:
            self._clear(number)
        self._remaining.begin(batch)
        try:
            returned = self._launcher.launch([self._jobs.points[number] for number in batch], initial_job_idx=batch[0])
        except Exception as error:  # noqa: BLE001 - a launcher's failure is that of its jobs
            returned, reason = (), f"the launcher failed: {reason_of(error)}"
            say(reason)
        else:
            reason = "the launcher ended the job without a result"
        for place, number in enumerate(batch):
            job = returned[place] if place < len(returned) else None
            if job is None or job.status is not JobStatus.COMPLETED:
                self._tell_lost(number, job, otherwise=reason)
                self._remaining.end(number, took_s=None, ok=False)
                continue
            result: JobResult = job.return_value
            self._remaining.end(number, took_s=result.took_s, ok=result.ok)
        return list(returned)

    def _clear(self, number: int) -> None:
        """Remove the files of an earlier attempt, and no others: the user may have chosen a folder with more in it."""
        directory = self._jobs.directory(number)
        if not directory.exists():
            return
        for rank in rank_directories(directory):
            if rank != directory:
                shutil.rmtree(rank)
        for name in _JOB_FILES:
            (directory / name).unlink(missing_ok=True)

    def _tell_lost(self, number: int, job: JobReturn | None, *, otherwise: str) -> None:
        """Write the results, failed, of a job that has left none."""
        directory = self._jobs.directory(number)
        if (directory / JOB_RESULTS_FILE).exists():
            return
        directory.mkdir(parents=True, exist_ok=True)
        error = None if job is None else job._return_value
        reason = otherwise if error is None else f"the job could not be run: {reason_of(error)}"
        record = RunRecord.read(self._directory)
        config = self._jobs.config(number)
        with open_dict(config):
            config.hydra.job.num = config.hydra.job.id = number
        job_result(
            directory,
            settings=settings_of(config, config.hydra),
            number=number,
            reason=reason,
            started_at=now(),
            host={} if record is None else record.host,
            commit=None if record is None else record.commit,
            objects_left=0,
            secrets=secret_values(),
        ).write(directory)
        say(f"[{number + 1}] FAILED: {reason}")


def _batches(numbers: Sequence[int], at_once: int | None) -> Iterator[list[int]]:
    """Jobs for the launcher, which numbers those of a batch one after another from the first."""
    batch: list[int] = []
    for number in numbers:
        if batch and (number != batch[-1] + 1 or len(batch) == at_once):
            yield batch
            batch = []
        batch.append(number)
    if batch:
        yield batch
