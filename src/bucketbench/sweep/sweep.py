"""One sweep, from the check of its points to the results of its jobs, whatever launches them.

Nothing here imports torch or a client: a sweep's process stays small beside what it measures.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn, JobStatus
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf, open_dict

from bucketbench.configuration.settings import JobSettings
from bucketbench.datagen import DatagenError
from bucketbench.errors import ConfigurationError, PreflightError, ResultsError
from bucketbench.job.composed import settings_of
from bucketbench.job.testbeds import Testbeds
from bucketbench.progress import say
from bucketbench.results.files import JOB_RESULTS_FILE
from bucketbench.results.job import job_result
from bucketbench.results.record import RunRecord, now
from bucketbench.scenarios import find_scenario
from bucketbench.secrecy import secret_values
from bucketbench.sweep.finish import finish
from bucketbench.sweep.points import Points, points_of
from bucketbench.sweep.preflight import check_sweep
from buckettestbed.launch import TestbedError

__all__ = ["Sweep"]

_DIRECTORY: Final = "hydra.sweep.dir"
_ELSEWHERE: Final = ("SlurmLauncher", "RayAWSLauncher", "rq_launcher")
"""Launchers whose jobs run on other machines, each with a machine's share of its own."""


class Sweep:
    """The jobs of one sweep.

    Args:
        context: Hydra's, which composes points.
        task_function: what runs a job.
        config: the configuration that all points have in common, Hydra's node included.
        params: swept values of the configuration's files, as ``hydra.sweeper.params`` has them.
        jobs_at_once: how many jobs a launcher gets at once; None for all.
        parallel_on_one_host: whether jobs may run at the same time on one machine, where they disturb each other.
    """

    def __init__(
        self,
        context: HydraContext,
        task_function: TaskFunction,
        config: DictConfig,
        *,
        params: dict[str, Any],
        jobs_at_once: int | None,
        parallel_on_one_host: bool,
    ) -> None:
        self._context = context
        self._task_function = task_function
        self._config = config
        self._params = params
        self._jobs_at_once = jobs_at_once
        self._parallel_on_one_host = parallel_on_one_host

    def run(self, arguments: Sequence[str]) -> list[JobReturn]:
        """Check every point, prepare what they need, and launch them.

        Args:
            arguments: the overrides of the command.

        Returns:
            What the launcher returned of each job.

        Raises:
            UsageError: the sweep was refused, before any result was written.
            ResultsError: the results could not be written.
            SystemExit: with status 130, when it was interrupted. Its results are written then.
        """
        self._check_launcher()
        points = self._points(arguments)
        checked = [self._settings(point) for point in points.distinct]
        check_sweep(checked)
        directory = self._make_directory(explicit=any(a.startswith(f"{_DIRECTORY}=") for a in self._hydra_overrides()))
        scenario = find_scenario(checked[0].scenario)
        with (
            _terminable(),
            _removed_when_refused(directory),
            Testbeds(keeps_objects=scenario.keeps_objects) as testbeds,
        ):
            preparation = scenario.prepared_in(directory, testbeds)
            for settings in checked:
                try:
                    preparation.prepare(settings)
                except (DatagenError, TestbedError) as error:
                    raise PreflightError(f"target={settings.config['target']['name']}: {error}") from error
            record = RunRecord(
                directory=directory,
                scenario=scenario.name,
                command=tuple(arguments),
                jobs_planned=len(points.points),
                varying=points.varying,
                testbeds=tuple(testbeds.running()),
            )
            record.write()
            OmegaConf.save(self._config, directory / "multirun.yaml")
            say(f"{len(points.points)} jobs; results in {directory}")
            try:
                return self._launch(points)
            except KeyboardInterrupt:
                say("interrupted: writing the results of the jobs so far")
                replace(record, interrupted=True).write()
                finish(directory)
                raise SystemExit(130) from None  # as shells have it: 128 and the number of SIGINT

    def _points(self, arguments: Sequence[str]) -> Points:
        parser = OverridesParser.create(config_loader=self._context.config_loader)
        written = [f"{key}={value}" for key, value in self._params.items()]
        names = self._config.default_clients.get(self._config.target.scheme) or ()
        return points_of(parser.parse_overrides([*written, *arguments]), default_clients=[str(name) for name in names])

    def _settings(self, point: Sequence[str]) -> JobSettings:
        composed = self._context.config_loader.load_sweep_config(self._config, list(point))
        return settings_of(composed, composed.hydra)

    def _hydra_overrides(self) -> list[str]:
        # Not resolved: an override may refer to the number of a job.
        overrides: Any = OmegaConf.to_container(self._config.hydra.overrides.hydra, resolve=False)
        return [str(override).lstrip("+") for override in overrides]

    def _check_launcher(self) -> None:
        launcher = str(self._config.hydra.launcher._target_)
        elsewhere = any(name in launcher for name in _ELSEWHERE) or bool(
            OmegaConf.select(self._config, "hydra.launcher.ray.init.address")
        )
        at_once = self._jobs_at_once
        if (at_once is None or at_once > 1) and not elsewhere and not self._parallel_on_one_host:
            raise ConfigurationError(
                f"hydra.sweeper.jobs_at_once={'null' if at_once is None else at_once} with "
                f"{launcher.rpartition('.')[2]} would measure jobs at the same time on this machine, where they "
                "disturb each other: leave it at 1, or set hydra.sweeper.parallel_on_one_host=true where that is what "
                "you want to measure"
            )

    def _make_directory(self, *, explicit: bool) -> Path:
        """Make the sweep's directory, which did not exist before: two sweeps of the same second get two."""
        wanted = Path(str(self._config.hydra.sweep.dir)).absolute()
        wanted.parent.mkdir(parents=True, exist_ok=True)
        directory = wanted
        for number in range(2, 1000):
            try:
                directory.mkdir()
            except FileExistsError:
                if explicit:
                    raise ConfigurationError(
                        f"{_DIRECTORY}={wanted} exists already, and results are never overwritten: name another"
                    ) from None
                directory = wanted.with_name(f"{wanted.name}-{number}")
                continue
            escaped = str(directory).replace("\\", "\\\\").replace("'", "\\'")
            with open_dict(self._config):
                self._config.hydra.sweep.dir = str(directory)
                # Each job's configuration is composed anew, from these.
                self._config.hydra.overrides.hydra.append(f"{_DIRECTORY}='{escaped}'")
            return directory
        raise ResultsError(f"{wanted} and 998 directories named after it exist already")

    def _launch(self, points: Points) -> list[JobReturn]:
        launcher = Plugins.instance().instantiate_launcher(
            hydra_context=self._context, task_function=self._task_function, config=self._config
        )
        returns: list[JobReturn] = []
        size = self._jobs_at_once or len(points.points)
        for first in range(0, len(points.points), size):
            batch = points.points[first : first + size]
            try:
                returned: Sequence[JobReturn] = launcher.launch(batch, initial_job_idx=first)
            except Exception as error:  # noqa: BLE001 - a launcher's failure is that of its jobs
                say(f"the launcher failed: {type(error).__name__}: {error}")
                returned, reason = (), f"the launcher failed: {type(error).__name__}: {error}"
            else:
                reason = "the launcher ended the job without a result"
            returns.extend(returned)
            for offset, point in enumerate(batch):
                job = returned[offset] if offset < len(returned) else None
                self._tell_lost(point, first + offset, job, otherwise=reason)
        return returns

    def _tell_lost(self, point: Sequence[str], number: int, job: JobReturn | None, *, otherwise: str) -> None:
        """Write the results, failed, of a job that has left none."""
        if job is not None and job.status is JobStatus.COMPLETED:
            return
        composed = self._context.config_loader.load_sweep_config(self._config, list(point))
        with open_dict(composed):
            composed.hydra.job.num = composed.hydra.job.id = number
        directory = Path(str(self._config.hydra.sweep.dir)) / str(OmegaConf.select(composed, "hydra.sweep.subdir"))
        if (directory / JOB_RESULTS_FILE).exists():
            return
        directory.mkdir(parents=True, exist_ok=True)
        error = None if job is None else job._return_value
        reason = otherwise if error is None else f"the job could not be run: {type(error).__name__}: {error}"
        record = RunRecord.read(Path(str(self._config.hydra.sweep.dir)))
        job_result(
            directory,
            settings=settings_of(composed, composed.hydra),
            number=number,
            reason=reason,
            started_at=now(),
            host={} if record is None else record.host,
            commit=None if record is None else record.commit,
            objects_left=0,
            secrets=secret_values(),
        ).write(directory)
        say(f"[{number + 1}] FAILED: {reason}")


@contextmanager
def _removed_when_refused(directory: Path) -> Iterator[None]:
    """Leave no empty run behind that ``bucketbench report`` would take for the newest."""
    try:
        yield
    except BaseException:
        with suppress(OSError):  # it is not empty: something was measured, or is the user's
            directory.rmdir()
            directory.parent.rmdir()
            directory.parent.parent.rmdir()
        raise


@contextmanager
def _terminable() -> Iterator[None]:
    """Treat SIGTERM as Ctrl-C, so that the results are written and nothing is left running."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals belong to the main thread
        return

    def interrupt(number: int, frame: Any) -> None:
        del number, frame
        raise KeyboardInterrupt

    before: Callable[..., Any] | int | None = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
