"""``run_job``: one job, from its composed configuration to its results. It is what a Hydra launcher runs, anywhere."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from bucketbench.cluster.agreement import refuse
from bucketbench.cluster.meeting import Meeting, NodeLostError, leave, meet
from bucketbench.cluster.shared_job import RunRanks, help_with, lead
from bucketbench.configuration.settings import JobSettings
from bucketbench.errors import ConfigurationError
from bucketbench.job.composed import settings_of
from bucketbench.job.description import JOB_FILE, LOG_FILE, OPERATIONS_FILE, OUTCOME_FILE, Description, rank_directories
from bucketbench.job.environment import measured_environment
from bucketbench.job.interpreters import made_interpreter
from bucketbench.job.process import ProcessEnd, run_measured_process
from bucketbench.job.testbeds import Testbeds
from bucketbench.progress import is_watched, say, show_job
from bucketbench.provenance.host import describe_host, git_commit
from bucketbench.reasons import reason_of
from bucketbench.results.job import INTERRUPTED, JobResult, job_result
from bucketbench.results.record import RunRecord, now
from bucketbench.scenarios import find_scenario
from bucketbench.scenarios.scenario import Scenario
from bucketbench.secrecy import home_directories, scrub_files, secret_values
from buckettestbed.launch import TestbedError

__all__ = ["help_job", "run_job"]

_PROGRESS_INTERVAL_S: Final = 10.0  # a job that takes longer says now and then how far it is


def run_job(config: DictConfig) -> JobResult | None:
    """Run one job in a fresh process and leave its results in its directory. A failure is a result, not an error.

    What the run's process has started and made already, it tells by ``run.json`` in the run's directory; on another
    machine, or without one, the job starts and makes what it needs. Where it is called on several nodes, they run the
    job together.

    Args:
        config: the composed configuration; ``HydraConfig`` has Hydra's own.

    Returns:
        The results; None on every node but the first.

    Raises:
        ConfigurationError: a value of the configuration cannot be used.
        PreflightError: on a node other than the first, where the nodes are not alike.
        NodeLostError: likewise, where the first does not answer.
        KeyboardInterrupt: after the process was ended and the job's results, failed, were written.
        ResultsError: they could not be written.
    """
    hydra = HydraConfig.get()
    settings = settings_of(config, hydra)
    number = int(_selected(hydra, "job.num") or 0)
    meeting = meet()
    try:
        _check_nodes(settings, meeting)
        if meeting is not None and not meeting.nodes.is_first:
            help_job(settings, meeting, number=number)
            return None
        return _run_here(settings, hydra, meeting, number=number)
    finally:
        if meeting is not None and meeting.nodes.of_one_job:
            leave(0)


def help_job(settings: JobSettings, meeting: Meeting, *, number: int) -> None:
    """Run this node's ranks of a job that another node leads.

    Args:
        settings: of the job.
        meeting: of the nodes.
        number: of the job in its run.

    Raises:
        PreflightError: the nodes are not alike.
        NodeLostError: the node that leads does not answer.
    """

    def run_in(directory: Path, own: JobSettings) -> RunRanks:
        return _ranks_in(directory, own, on_progress=_unseen)

    help_with(meeting, settings, number=number, run_in=run_in)


def _unseen(word: Mapping[str, Any]) -> None:
    """Node 0 shows how far the job is."""
    del word


def _check_nodes(settings: JobSettings, meeting: Meeting | None) -> None:
    """Raise where the job wants another number of nodes than there are."""
    there, wanted = 1 if meeting is None else meeting.nodes.count, int(settings.config["nodes"])
    if there != wanted:
        raise ConfigurationError(
            f"nodes={wanted} and the job was started on {there}: make them the same number (docs/cluster.md)"
        )


def _ranks_in(
    directory: Path,
    settings: JobSettings,
    *,
    on_progress: Callable[[dict[str, Any]], None],
    helpers: Sequence[int] = (),
) -> Callable[..., ProcessEnd]:
    """What runs this node's ranks of the job in a directory."""
    return partial(
        run_measured_process,
        directory,
        ranks=settings.processes,
        python=made_interpreter(settings.config["client"]["environment"], client=settings.client.name, say=say),
        environment=measured_environment(os.environ, testbed=settings.uses_testbed),
        time_limit_s=settings.config["time_limit_s"],
        on_progress=on_progress,
        helpers=helpers,
    )


def _run_here(settings: JobSettings, hydra: Any, meeting: Meeting | None, *, number: int) -> JobResult:
    directory = Path(hydra.runtime.output_dir)
    record = _record_of(hydra)
    planned = record.jobs_planned if record else 1
    title = f"[{number + 1}/{planned}] {settings.client.name}"
    begun = f"repeat {settings.repeat}{_varying(settings, record)}"
    if is_watched():
        show_job(f"{settings.client.name}: {begun}")  # its line comes when it is over
    else:
        say(f"{title}: {begun}")
    scenario = find_scenario(settings.scenario)
    running = record.testbeds if record else ()
    with Testbeds(keeps_objects=scenario.keeps_objects, running=running) as testbeds:
        run_directory = record.directory if record else directory
        job = _Job(scenario, settings, directory, run_directory=run_directory, meeting=meeting)
        result = job.run(testbeds, number=number, title=title)
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

    def __init__(
        self,
        scenario: Scenario,
        settings: JobSettings,
        directory: Path,
        *,
        run_directory: Path,
        meeting: Meeting | None,
    ) -> None:
        self._scenario = scenario
        self._settings = settings
        self._directory = directory
        self._run_directory = run_directory
        self._meeting = meeting
        self.interrupted: KeyboardInterrupt | None = None

    def run(self, testbeds: Testbeds, *, number: int, title: str) -> JobResult:
        """Measure, and write what was found."""
        started_at, form, secrets = now(), self._scenario.table, secret_values()
        objects_before = self._object_count(testbeds)
        try:
            reason = self._measure(testbeds, number=number, title=title)
        except KeyboardInterrupt as error:
            reason, self.interrupted = INTERRUPTED, error
        except Exception as error:  # noqa: BLE001 - one job's failure, whatever it is, must not end the run
            reason = f"the job could not be run: {reason_of(error)}"
            self._call_off(number, reason)
        left = self._object_count(testbeds) - objects_before

        def written() -> JobResult:
            return self._written(number=number, reason=reason, started_at=started_at, left=left, secrets=secrets)

        try:
            result = written()
        except KeyboardInterrupt as error:  # what was measured is not lost for that
            self.interrupted, result = error, written()
        remark = f"; objects left in the bucket: {left}" if left else ""
        say(f"{title}: {_summary(result, form.headline, form.duration)}{remark}")
        return result

    def _written(self, *, number: int, reason: str, started_at: str, left: int, secrets: tuple[str, ...]) -> JobResult:
        """The job's results, written; its files have no secrets any more."""
        folders = {self._directory, *rank_directories(self._directory)}
        left_behind = [folder / name for folder in folders for name in (LOG_FILE, OPERATIONS_FILE, OUTCOME_FILE)]
        scrub_files(left_behind, secrets, home_directories())
        scrub_files([folder / JOB_FILE for folder in folders], secrets)  # with its paths: it is what the process ran by
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
        return result

    def _call_off(self, number: int, reason: str) -> None:
        """Let no other node wait for a job that was not begun."""
        if self._meeting is not None and self._meeting.nodes.of_one_job:
            with contextlib.suppress(NodeLostError):
                refuse(self._meeting, f"job/{number}", reason)

    def _object_count(self, testbeds: Testbeds) -> int:
        """How many objects the job's bucket has in the testbed; always 0 for a real service, which is not asked."""
        try:
            testbed = testbeds.testbed(self._settings)
            return 0 if testbed is None else testbed.object_counts()[self._settings.config["target"]["bucket"]]
        except (OSError, TestbedError):
            return 0  # it does not answer: the job's own failure tells that

    def _measure(self, testbeds: Testbeds, *, number: int, title: str) -> str:
        settings = self._settings
        preparation = self._scenario.prepared_in(self._run_directory, testbeds)
        preparation.prepare(settings)
        job = preparation.job(settings)
        testbed = testbeds.testbed(settings)
        if testbed is not None:
            testbed.set_network(settings.config["network"])
            testbed.set_faults(settings.config["faults"])
        measurement, search_path = self._scenario.measurement, settings.config_directories
        description = Description.of(job, measurement=measurement, search_path=search_path)
        description.write(self._directory)
        last_s = time.monotonic()

        def show(word: Mapping[str, Any]) -> None:
            nonlocal last_s
            counted = self._scenario.table.counted
            told = f"{word['stage']}, {word['done']:,} of {word['total']:,} {counted}"
            if is_watched():
                show_job(f"{settings.client.name}: {told}")
            elif time.monotonic() - last_s >= _PROGRESS_INTERVAL_S:
                last_s = time.monotonic()
                say(f"{title}: {told}")

        helpers = () if testbed is None else (testbed.pid,)
        run = _ranks_in(self._directory, settings, on_progress=show, helpers=helpers)
        try:
            if self._meeting is None:
                return run().reason
            return lead(
                self._meeting,
                settings,
                number=number,
                directory=self._directory,
                description=description,
                own_directories=job.own_directories,
                run=run,
            )
        finally:
            # Here and not in the measured process, which may have been killed.
            for own in map(Path, job.own_directories):
                if own.exists():
                    shutil.rmtree(own)


def _summary(result: JobResult, headline: tuple[str, ...], duration: str) -> str:
    if not result.ok:
        return f"FAILED: {result.reason}"
    shown = [figure for name in headline if (figure := result.figures[name]).value is not None]
    speed = ", ".join(f"{figure.value:,.1f} {figure.unit}" for figure in shown)
    took = result.figures[duration].value
    return (speed or "no speed could be measured") + ("" if took is None else f" in {took:.1f} s")
