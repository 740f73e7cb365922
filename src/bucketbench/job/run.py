"""``run_job``: one job, from its composed configuration to its results. It is what a Hydra launcher runs, anywhere."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from bucketbench.configuration.settings import JobSettings
from bucketbench.job.composed import settings_of
from bucketbench.job.description import JOB_FILE, LOG_FILE, OPERATIONS_FILE, OUTCOME_FILE, Description, rank_directories
from bucketbench.job.environment import measured_environment
from bucketbench.job.interpreters import made_interpreter
from bucketbench.job.process import run_measured_process
from bucketbench.job.testbeds import Testbeds
from bucketbench.progress import say
from bucketbench.provenance.host import describe_host, git_commit
from bucketbench.results.job import JobResult, job_result
from bucketbench.results.record import RunRecord, now
from bucketbench.scenarios import find_scenario
from bucketbench.scenarios.scenario import Scenario
from bucketbench.secrecy import scrub_files, secret_values
from buckettestbed.launch import TestbedError

__all__ = ["run_job"]

_PROGRESS_INTERVAL_S: Final = 10.0  # a job that takes longer says now and then how far it is


def run_job(config: DictConfig) -> JobResult:
    """Run one job in a fresh process and leave its results in its directory. A failure is a result, not an error.

    What the run's process has started and made already, it tells by ``run.json`` in the run's directory; on another
    machine, or without one, the job starts and makes what it needs.

    Args:
        config: the composed configuration; ``HydraConfig`` has Hydra's own.

    Raises:
        ConfigurationError: a value of the configuration cannot be used.
        KeyboardInterrupt: after the process was ended and the job's results, failed, were written.
        ResultsError: they could not be written.
    """
    hydra = HydraConfig.get()
    settings = settings_of(config, hydra)
    directory = Path(hydra.runtime.output_dir)
    record = _record_of(hydra)
    number = _selected(hydra, "job.num") or 0
    planned = record.jobs_planned if record else 1
    title = f"[{number + 1}/{planned}] {settings.client.name}"
    say(f"{title}: repeat {settings.repeat}{_varying(settings, record)}")
    scenario = find_scenario(settings.scenario)
    running = record.testbeds if record else ()
    with Testbeds(keeps_objects=scenario.keeps_objects, running=running) as testbeds:
        job = _Job(scenario, settings, directory, run_directory=record.directory if record else directory)
        result = job.run(testbeds, number=int(number), title=title)
    if job.interrupted is not None:
        raise job.interrupted
    return result


def _record_of(hydra: Any) -> RunRecord | None:
    sweep = _selected(hydra, "sweep.dir")
    return None if sweep is None else RunRecord.read(Path(hydra.runtime.cwd) / str(sweep))


def _selected(hydra: Any, key: str) -> Any:
    return OmegaConf.select(hydra, key, throw_on_missing=False)


def _varying(settings: JobSettings, record: RunRecord | None) -> str:
    parameters = settings.parameters
    varying = [f"{name}={parameters[name]}" for name in (record.varying if record else ()) if name in parameters]
    return f", {', '.join(varying)}" if varying else ""


class _Job:
    """One job on its way from settings to results."""

    def __init__(self, scenario: Scenario, settings: JobSettings, directory: Path, *, run_directory: Path) -> None:
        self._scenario = scenario
        self._settings = settings
        self._directory = directory
        self._run_directory = run_directory
        self.interrupted: KeyboardInterrupt | None = None

    def run(self, testbeds: Testbeds, *, number: int, title: str) -> JobResult:
        """Measure, and write what was found."""
        started_at, form, secrets = now(), self._scenario.table, secret_values()
        objects_before = self._object_count(testbeds)
        try:
            reason = self._measure(testbeds, title=title)
        except KeyboardInterrupt as error:
            reason, self.interrupted = "interrupted", error
        except Exception as error:  # noqa: BLE001 - one job's failure, whatever it is, must not end the run
            reason = f"the job could not be run: {type(error).__name__}: {error}"
        folders = {self._directory, *rank_directories(self._directory)}
        names = (LOG_FILE, OPERATIONS_FILE, OUTCOME_FILE, JOB_FILE)
        scrub_files([folder / name for folder in folders for name in names], secrets)
        left = self._object_count(testbeds) - objects_before
        result = job_result(
            self._directory,
            settings=self._settings,
            number=number,
            reason=reason,
            started_at=started_at,
            host=describe_host(),
            commit=git_commit(),
            objects_left=left,
            secrets=secrets,
        )
        result.write(self._directory)
        remark = f"; objects left in the bucket: {left}" if left else ""
        say(f"{title}: {_summary(result, form.headline, form.duration)}{remark}")
        return result

    def _object_count(self, testbeds: Testbeds) -> int:
        """How many objects the job's bucket has in the testbed; always 0 for a real service, which is not asked."""
        try:
            testbed = testbeds.testbed(self._settings)
            return 0 if testbed is None else testbed.object_counts()[self._settings.config["target"]["bucket"]]
        except (OSError, TestbedError):
            return 0  # it does not answer: the job's own failure tells that

    def _measure(self, testbeds: Testbeds, *, title: str) -> str:
        settings = self._settings
        preparation = self._scenario.prepared_in(self._run_directory, testbeds)
        preparation.prepare(settings)
        job = preparation.job(settings)
        testbed = testbeds.testbed(settings)
        if testbed is not None:
            testbed.set_network(settings.config["network"])
            testbed.set_faults(settings.config["faults"])
        measurement, search_path = self._scenario.measurement, settings.config_directories
        Description.of(job, measurement=measurement, search_path=search_path).write(self._directory)
        last_s = time.monotonic()

        def show(word: Mapping[str, Any]) -> None:
            nonlocal last_s
            if time.monotonic() - last_s >= _PROGRESS_INTERVAL_S:
                last_s = time.monotonic()
                counted = self._scenario.table.counted
                say(f"{title}: {word['stage']}, {word['done']:,} of {word['total']:,} {counted}")

        try:
            end = run_measured_process(
                self._directory,
                ranks=settings.config["ranks"],
                python=made_interpreter(settings.config["client"]["environment"], client=settings.client.name, say=say),
                environment=measured_environment(os.environ, testbed=settings.uses_testbed),
                time_limit_s=settings.config["time_limit_s"],
                on_progress=show,
            )
        finally:
            # Here and not in the measured process, which may have been killed.
            for own in map(Path, job.own_directories):
                if own.exists():
                    shutil.rmtree(own)
        return end.reason


def _summary(result: JobResult, headline: tuple[str, ...], duration: str) -> str:
    if not result.ok:
        return f"FAILED: {result.reason}"
    shown = [figure for name in headline if (figure := result.figures[name]).value is not None]
    speed = ", ".join(f"{figure.value:,.1f} {figure.unit}" for figure in shown)
    took = result.figures[duration].value
    return (speed or "no speed could be measured") + ("" if took is None else f" in {took:.1f} s")
