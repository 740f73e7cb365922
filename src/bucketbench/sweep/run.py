"""What the jobs of one sweep share, and how one of them is run, with lines of progress.

Nothing here imports torch or a client: a sweep's process stays small beside what it measures.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from bucketbench.configuration.settings import JobSettings
from bucketbench.datagen import DatagenError
from bucketbench.errors import PreflightError
from bucketbench.job import JOB_FILE, LOG_FILE, OPERATIONS_FILE, OUTCOME_FILE
from bucketbench.results.files import JOB_RESULTS_FILE, write_json
from bucketbench.results.job import job_results, read_outcome
from bucketbench.results.run import now
from bucketbench.scenarios import swept, table_of
from bucketbench.scenarios.presentation import TableForm
from bucketbench.secrecy import scrub_files, secret_values
from bucketbench.sweep.environment import measured_environment
from bucketbench.sweep.grounds import SweepGrounds
from bucketbench.sweep.interpreters import made_interpreter
from bucketbench.sweep.process import run_measured_process
from bucketbench.sweep.speech import say
from buckettestbed.launch import TestbedError

__all__ = ["Sweep"]

_PROGRESS_INTERVAL_S: Final = 10.0  # a job that takes longer says now and then how far it is


class Sweep:
    """Runs the jobs of one sweep, one after another, on what they share.

    A context manager: the testbeds that jobs need end with the block.
    """

    def __init__(
        self,
        directory: Path,
        *,
        scenario: str,
        points: list[JobSettings],
        host: Mapping[str, Any],
        commit: str | None,
    ) -> None:
        """Prepare for the given points, in the order in which they will run.

        Args:
            directory: the sweep's own directory.
            scenario: name of the scenario of all points.
            points: every job's settings.
            host: the machine, for the results.
            commit: of this program's source, for the results.
        """
        self.directory = directory
        self.failed = 0
        self._points = points
        self._host = host
        self._commit = commit
        self._form = table_of(scenario)
        known = swept(scenario)
        self._grounds = SweepGrounds(keeps_objects=known.keeps_objects)
        self._preparation = known.preparation(directory, self._grounds)
        self._secrets = secret_values()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._grounds.__exit__(kind, error, trace)

    def prepare(self) -> None:
        """Start the testbeds and make the objects that the points need, before the first job.

        Raises:
            PreflightError: a bucket is not there, objects cannot be made or read, a testbed does not start.
        """
        for point in self._points:
            try:
                self._preparation.prepare(point)
            except (DatagenError, TestbedError) as error:
                raise PreflightError(f"target={point.config['target']['name']}: {error}") from error

    def run_job(self, settings: JobSettings, directory: Path, *, number: int) -> None:
        """Run one job in a fresh process and leave its results in ``directory``. A failure is a result, not an error.

        Args:
            settings: the job.
            directory: its own, which exists.
            number: its place in the sweep, from 0.

        Raises:
            KeyboardInterrupt: after the process was ended and the job's results, failed, were written.
        """
        title = f"[{number + 1}/{len(self._points)}] {settings.client.name}"
        say(f"{title}: repeat {settings.repeat}{self._varying(settings)}")
        started_at = now()
        interrupted: KeyboardInterrupt | None = None
        objects_before = self._object_count(settings)
        try:
            reason = self._measure(settings, directory, title=title)
        except KeyboardInterrupt as error:
            reason, interrupted = "interrupted", error
        except Exception as error:  # noqa: BLE001 - one job's failure, whatever it is, must not end the sweep
            reason = f"the job could not be run: {type(error).__name__}: {error}"
        written = [directory / name for name in (LOG_FILE, OPERATIONS_FILE, OUTCOME_FILE, JOB_FILE)]
        scrub_files(written, self._secrets)
        outcome = read_outcome(directory, otherwise=reason)
        left = self._object_count(settings) - objects_before
        if left:
            outcome["details"] = {**outcome["details"], "objects_left": str(left)}
        results = job_results(
            directory,
            settings=settings,
            outcome=outcome,
            started_at=started_at,
            host=self._host,
            commit=self._commit,
            secrets=self._secrets,
        )
        write_json(directory / JOB_RESULTS_FILE, results)
        self.failed += results["status"] != "ok"
        say(f"{title}: {_summary(results, self._form)}" + (f"; objects left in the bucket: {left}" if left else ""))
        if interrupted is not None:
            raise interrupted

    def _object_count(self, settings: JobSettings) -> int:
        """How many objects the job's bucket has in the testbed; always 0 for a real service, which is not asked."""
        try:
            testbed = self._grounds.testbed(settings)
            return 0 if testbed is None else testbed.object_counts()[settings.config["target"]["bucket"]]
        except (OSError, TestbedError):
            return 0  # it does not answer: the job's own failure tells that

    def _measure(self, settings: JobSettings, directory: Path, *, title: str) -> str:
        job = self._preparation.job(settings)
        testbed = self._grounds.testbed(settings)
        if testbed is not None:
            testbed.set_network(settings.config["network"])
            testbed.set_faults(settings.config["faults"])
        job.write(directory)
        last_s = time.monotonic()

        def show(word: Mapping[str, Any]) -> None:
            nonlocal last_s
            if time.monotonic() - last_s >= _PROGRESS_INTERVAL_S:
                last_s = time.monotonic()
                say(f"{title}: {word['stage']}, {word['done']:,} of {word['total']:,} {self._form.counted}")

        end = run_measured_process(
            directory,
            python=made_interpreter(settings.config["client"]["environment"], client=settings.client.name, say=say),
            environment=measured_environment(os.environ, testbed=settings.uses_testbed),
            time_limit_s=settings.config["time_limit_s"],
            on_progress=show,
        )
        return end.reason

    def _varying(self, settings: JobSettings) -> str:
        parameters = settings.parameters
        varying = [
            f"{name}={value}"
            for name, value in parameters.items()
            if any(point.parameters.get(name) != value for point in self._points)
        ]
        return f", {', '.join(varying)}" if varying else ""


def _summary(results: Mapping[str, Any], form: TableForm) -> str:
    if results["status"] != "ok":
        return f"FAILED: {results['reason']}"
    figures = results["figures"]
    speed = [
        f"{figures[name]['value']:,.1f} {figures[name]['unit']}"
        for name in form.headline
        if figures[name]["value"] is not None
    ]
    took = figures[form.duration]["value"]
    return f"{', '.join(speed) or 'no speed could be measured'}" + ("" if took is None else f" in {took:.1f} s")
