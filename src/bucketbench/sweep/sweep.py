"""One sweep, from the check of its points to the results of its jobs, whatever launches them.

Nothing here imports torch or a client: a sweep's process stays small beside what it measures.
"""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.utils import JobReturn, env_override
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf, open_dict

from bucketbench.cluster.agreement import agree, refusal_told, statement_of
from bucketbench.cluster.meeting import ARRIVAL_S, Meeting, meet
from bucketbench.configuration.settings import JobSettings
from bucketbench.datagen import DatagenError
from bucketbench.errors import ConfigurationError, PreflightError, ResultsError, UsageError
from bucketbench.job.composed import settings_of
from bucketbench.job.run import help_job
from bucketbench.job.testbeds import Testbeds
from bucketbench.progress import say
from bucketbench.reasons import as_keys
from bucketbench.report.runs import read_jobs
from bucketbench.results.files import job_directories, write_whole
from bucketbench.results.job import JobResult
from bucketbench.results.lock import held
from bucketbench.results.record import RECORD_FILE, RunRecord, now
from bucketbench.scenarios import find_scenario
from bucketbench.sinks.chosen import check_sinks
from bucketbench.sinks.delivery import tell_unpushed
from bucketbench.sweep.finish import INTERRUPTED_STATUS, finish
from bucketbench.sweep.jobs import Jobs
from bucketbench.sweep.launching import Launching
from bucketbench.sweep.node_count import check_nodes
from bucketbench.sweep.options import SweepOptions
from bucketbench.sweep.plan import plan
from bucketbench.sweep.points import Points, points_of
from bucketbench.sweep.preflight import check_distinct, check_sweep
from buckettestbed.launch import TestbedError

__all__ = ["COMMON_FILE", "Sweep"]

COMMON_FILE: Final = "multirun.yaml"
"""The configuration that all jobs have in common, as Hydra's own sweeper names it."""

_DIRECTORY: Final = "hydra.sweep.dir"
_TOPIC: Final = "sweep"  # what all nodes agree about before the first job
_ELSEWHERE: Final = ("SlurmLauncher", "RayAWSLauncher", "rq_launcher")
"""Launchers whose jobs run on other machines, each with a machine's share of its own."""


class Sweep:
    """The jobs of one sweep.

    Args:
        context: Hydra's, which composes points.
        task_function: what runs a job.
        config: the configuration that all points have in common, Hydra's node included.
        options: of the sweeper.
    """

    def __init__(
        self,
        context: HydraContext,
        task_function: TaskFunction,
        config: DictConfig,
        *,
        options: SweepOptions,
    ) -> None:
        self._context = context
        self._task_function = task_function
        self._config = config
        self._options = options

    def run(self, arguments: Sequence[str]) -> list[JobReturn]:
        """Check every point, prepare what they need, and launch them.

        Of several nodes, which all call it, the first one does so, and the others help it with each job.

        Args:
            arguments: the overrides of the command.

        Returns:
            What the launcher returned of each job; nothing on a node that helped.

        Raises:
            UsageError: the sweep was refused, before any result was written.
            NodeLostError: another node does not answer.
            ResultsError: the results could not be written.
            SystemExit: with status 130, when it was interrupted. Its results are written then. On a node that helped,
                with the status of the first one, unless that is 0.
        """
        meeting = meet()
        with refusal_told(meeting, _TOPIC):
            points = self._points(arguments)
            jobs = Jobs.composed(points, self.composed)
            jobs.check_directories()
            if self._options.dry_run:
                self._plan(jobs, meeting)
            checked = self._checked(jobs, meeting)
        if meeting is not None:
            agree(meeting, _TOPIC, statement_of(checked), within_s=ARRIVAL_S)
            if not meeting.nodes.is_first:
                return self._help(jobs, meeting)
        directory = self._make_directory()
        with _removed_when_refused(directory), held(directory):
            self._place_in(directory, jobs)
            record = RunRecord(
                directory=directory,
                scenario=checked[0].scenario,
                command=tuple(arguments),
                jobs_planned=len(jobs),
                varying=points.varying,
                label=checked[0].config["label"],
            )
            return self._measured(record, jobs, checked, numbers=range(len(jobs)))

    def resume(self, directory: Path, jobs: Jobs, numbers: Sequence[int]) -> list[JobReturn]:
        """Launch the jobs of an earlier sweep that are still to be done, as ``run`` does; its lock is held.

        Args:
            directory: of the run.
            jobs: all that it consists of.
            numbers: of those that are to be done, ascending.

        Raises:
            UsageError: it was refused, before any result was written.
            NodeLostError: another node does not answer.
            ResultsError: the results could not be written.
            SystemExit: as ``run``.
        """
        meeting = meet()
        with refusal_told(meeting, _TOPIC):
            checked = self._checked(jobs, meeting)
        if meeting is not None:
            agree(meeting, _TOPIC, statement_of(checked), within_s=ARRIVAL_S)
            if not meeting.nodes.is_first:
                return self._help(jobs, meeting)
        record = RunRecord.read(directory)
        if record is None:
            raise ResultsError(f"{directory} has no record of a sweep")
        record = replace(record, interrupted=False, resumed_at=(*record.resumed_at, now()))
        results = [result for _, result in read_jobs(directory) if result.number not in numbers]
        return self._measured(record, jobs, checked, numbers=numbers, results=results)

    def _plan(self, jobs: Jobs, meeting: Meeting | None) -> None:
        """Print what would be done, and end."""
        settings = jobs.settings()
        lines = plan(jobs.points, kinds=jobs.kinds, settings=settings, runs=self.runs)
        sys.stdout.write("".join(f"{line}\n" for line in lines))
        self.check(settings, meeting, apart=[settings], makes=False)  # last, so that the points are told in any case
        self.check_free()
        raise SystemExit(0)

    def _checked(self, jobs: Jobs, meeting: Meeting | None) -> list[JobSettings]:
        """The settings of each kind of job, and that they can be run."""
        checked = jobs.settings()
        self.check(checked, meeting, apart=[checked])
        return checked

    @property
    def runs(self) -> Path:
        """The directory of the scenario's runs."""
        return self._wanted.parent

    def composed(self, point: Sequence[str]) -> DictConfig:
        """The configuration of one point.

        Raises:
            HydraException: it cannot be composed.
        """
        return self._context.config_loader.load_sweep_config(self._config, list(point))

    def check(
        self,
        settings: Sequence[JobSettings],
        meeting: Meeting | None,
        *,
        apart: Sequence[Sequence[JobSettings]],
        makes: bool = True,
    ) -> None:
        """Raise where a job cannot be launched or run, or its results not be sent.

        Args:
            settings: of each kind of job, at least one.
            meeting: of the nodes, None where there is one.
            apart: those of which no two may be alike.
            makes: whether the environments that clients need for themselves are made; else such clients are passed
                over.

        Raises:
            UsageError: says what to change.
        """
        self._check_launcher(settings, meeting)
        if meeting is None or meeting.nodes.is_first:  # which sends the results
            check_sinks(
                [self._sink(), *(one.config["sink"] for group in (settings, *apart) for one in group)],
                config_directories=settings[0].config_directories,
            )
        for group in apart:
            check_distinct(group)
        check_sweep(settings, makes=makes)

    def check_free(self) -> None:
        """Raise where the sweep is to go into a directory that exists.

        Raises:
            ConfigurationError: the command names it.
        """
        if self._is_named and self._wanted.exists():
            raise _exists(self._wanted)

    def _measured(
        self,
        record: RunRecord,
        jobs: Jobs,
        checked: Sequence[JobSettings],
        *,
        numbers: Sequence[int],
        results: Sequence[JobResult] = (),
    ) -> list[JobReturn]:
        """Prepare what the jobs need, write what the run is, and launch them."""
        directory, scenario = record.directory, find_scenario(record.scenario)
        needed = [checked[kind] for kind in dict.fromkeys(jobs.kinds[number] for number in numbers)]
        try:
            jobs.write(directory)  # before the record, so that what is a run can be resumed
            with write_whole(directory / COMMON_FILE) as unfinished:
                OmegaConf.save(self._config, unfinished)
            record.write()
            with Testbeds(keeps_objects=scenario.keeps_objects) as testbeds:
                preparation = scenario.prepared_in(directory, testbeds)
                for settings in needed:
                    try:
                        preparation.prepare(settings)
                    except (DatagenError, TestbedError) as error:
                        raise PreflightError(
                            f"target={settings.config['target']['name']}: {as_keys(str(error))}"
                        ) from error
                record = replace(record, testbeds=tuple(testbeds.running()))
                record.write()
                done = f", {len(jobs) - len(numbers)} of them done" if len(numbers) < len(jobs) else ""
                say(f"{len(jobs)} jobs{done}; results in {directory}")
                return Launching(
                    self._context,
                    self._task_function,
                    self._config,
                    jobs,
                    jobs_at_once=self._options.jobs_at_once,
                    results=results,
                ).run(numbers)
        except KeyboardInterrupt:  # also while the testbeds are ended
            self._end_early(record)
            raise SystemExit(INTERRUPTED_STATUS) from None
        except ResultsError as error:  # a full disk, say
            if not (directory / RECORD_FILE).exists():
                raise
            raise ResultsError(f"{error}; once that is mended go on by: {_resume(directory)}") from error

    def _end_early(self, record: RunRecord) -> None:
        """Write and show what was measured until the sweep was interrupted."""
        directory = record.directory
        say("interrupted: writing the results of the jobs so far")
        replace(record, interrupted=True).write()
        with suppress(KeyboardInterrupt):  # a second one: the table can be had later
            finish(directory, html=False)  # its charts take seconds
        tell_unpushed(self._sink(), directory)
        say(f"go on with it by: {_resume(directory)}")

    def _points(self, arguments: Sequence[str]) -> Points:
        parser = OverridesParser.create(config_loader=self._context.config_loader)
        names = find_scenario(str(self._config.scenario)).settings.clients_by_default(self._config)
        return points_of(
            parser.parse_overrides([*self._options.written, *arguments]),
            default_clients=[str(name) for name in names],
            order_seed=self._options.order_seed,
        )

    def _sink(self) -> dict[str, Any]:
        fields: Any = OmegaConf.to_container(self._config.sink, resolve=True)
        return dict(fields)

    def _hydra_overrides(self) -> list[str]:
        # Not resolved: an override may refer to the number of a job.
        overrides: Any = OmegaConf.to_container(self._config.hydra.overrides.hydra, resolve=False)
        return [str(override).lstrip("+") for override in overrides]

    def _help(self, jobs: Jobs, meeting: Meeting) -> list[JobReturn]:
        """Run this node's ranks of each job that the first node begins, until that ends the sweep."""
        say(f"{len(jobs)} jobs; node 0 has the results")
        while "ended" not in (event := meeting.next_event()):
            number = int(event["job"])
            config = jobs.config(number)
            environment: Any = OmegaConf.to_container(config.hydra.job.env_set, resolve=True)
            try:
                with env_override(environment):
                    help_job(settings_of(config, config.hydra), meeting, number=number)
            except PreflightError as error:
                say(f"[{number + 1}] FAILED: {error}")  # the job's failure, and the next one may go well
        if event["ended"]:
            say(f"node 0 has ended with status {event['ended']}; it has written why")
            raise SystemExit(int(event["ended"]))
        return []

    def _check_launcher(self, points: Sequence[JobSettings], meeting: Meeting | None) -> None:
        launcher = str(self._config.hydra.launcher._target_)
        check_nodes(points, there=1 if meeting is None else meeting.nodes.count, launcher=self._config.hydra.launcher)
        elsewhere = any(name in launcher for name in _ELSEWHERE) or bool(
            OmegaConf.select(self._config, "hydra.launcher.ray.init.address")
        )
        at_once = self._options.jobs_at_once
        if (at_once is None or at_once > 1) and not elsewhere and not self._options.parallel_on_one_host:
            raise ConfigurationError(
                f"hydra.sweeper.jobs_at_once={'null' if at_once is None else at_once} with "
                f"{launcher.rpartition('.')[2]} would measure jobs at the same time on this machine, where they "
                "disturb each other: leave it at 1, or set hydra.sweeper.parallel_on_one_host=true where that is what "
                "you want to measure"
            )

    @property
    def _wanted(self) -> Path:
        return Path(str(self._config.hydra.sweep.dir)).absolute()

    @property
    def _is_named(self) -> bool:
        """Whether the command says which directory the sweep goes into."""
        return any(override.startswith(f"{_DIRECTORY}=") for override in self._hydra_overrides())

    def _make_directory(self) -> Path:
        """Make the sweep's directory, which did not exist before: two sweeps of the same second get two."""
        wanted = self._wanted
        wanted.parent.mkdir(parents=True, exist_ok=True)
        directory = wanted
        for number in range(2, 1000):
            try:
                directory.mkdir()
            except FileExistsError:
                if self._is_named:
                    raise _exists(wanted) from None
                directory = wanted.with_name(f"{wanted.name}-{number}")
                continue
            return directory
        raise ResultsError(f"{wanted} and 998 directories named after it exist already")

    def _place_in(self, directory: Path, jobs: Jobs) -> None:
        escaped = str(directory).replace("\\", "\\\\").replace("'", "\\'")
        override = f"{_DIRECTORY}='{escaped}'"
        with open_dict(self._config):
            self._config.hydra.sweep.dir = str(directory)
            self._config.hydra.overrides.hydra.append(override)
        jobs.place_in(directory, override)


def _resume(directory: Path) -> str:
    return f"bucketbench resume {shlex.quote(str(directory))}"


def _exists(directory: Path) -> ConfigurationError:
    return ConfigurationError(
        f"{_DIRECTORY}={directory} exists already, and results are never overwritten: name another"
    )


@contextmanager
def _removed_when_refused(directory: Path) -> Iterator[None]:
    """Leave no run behind in which nothing was measured and nothing will be."""
    try:
        yield
    except BaseException as error:
        # Without its record nobody could resume it. All that is in it is of this sweep, which has made it.
        ends = isinstance(error, UsageError) or not (directory / RECORD_FILE).exists()
        if ends and not job_directories(directory):
            shutil.rmtree(directory, ignore_errors=True)
        with suppress(OSError):  # something was measured, or can be resumed, or they have other runs
            directory.parent.rmdir()
            directory.parent.parent.rmdir()
        raise
