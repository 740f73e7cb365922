"""The rounds of a search: what is measured in turns, each time as a run of its own."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from hydra.core.utils import JobReturn, JobStatus
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, open_dict

from bucketbench.cluster.meeting import Meeting
from bucketbench.cluster.nodes import Nodes
from bucketbench.configuration.settings import JobSettings
from bucketbench.errors import ConfigurationError, UsageError
from bucketbench.job.composed import settings_of
from bucketbench.reasons import reason_of
from bucketbench.results.job import JobResult
from bucketbench.results.record import RunRecord
from bucketbench.sweep.jobs import Jobs, check_repeats
from bucketbench.sweep.options import SweepOptions
from bucketbench.sweep.points import Points
from bucketbench.sweep.sweep import Sweep
from bucketbench.tuning.measured import Measured, Setting
from bucketbench.tuning.options import SearchOptions
from bucketbench.tuning.space import Space

__all__ = ["REFERENCE", "Rounds", "result_of"]

REFERENCE: Final[Setting] = ()
"""The configuration as it stands."""


class _Round(Sweep):
    """A sweep over points that are given and were checked, instead of those that overrides combine."""

    def __init__(
        self,
        context: HydraContext,
        task_function: TaskFunction,
        config: DictConfig,
        *,
        options: SweepOptions,
        points: Points,
    ) -> None:
        super().__init__(context, task_function, config, options=options)
        self._given = points

    def _points(self, arguments: Sequence[str]) -> Points:
        del arguments
        return self._given

    def _checked(self, jobs: Jobs, meeting: Meeting | None) -> list[JobSettings]:
        del meeting
        return jobs.settings()


class Rounds:
    """Composes, checks and measures settings.

    Args:
        context: Hydra's, which composes points.
        task_function: what runs a job.
        config: the configuration that all settings have in common, Hydra's node included. The last round's directory is
            put into it.
        options: how the search goes.
        space: what is searched.
        figure: name of the figure that is to be as high as it can.
    """

    def __init__(
        self,
        context: HydraContext,
        task_function: TaskFunction,
        config: DictConfig,
        *,
        options: SearchOptions,
        space: Space,
        figure: str,
    ) -> None:
        self._context = context
        self._task_function = task_function
        self._config = config
        self._options = options
        self._space = space
        self._figure = figure
        self._launching = SweepOptions(
            jobs_at_once=options.jobs_at_once, parallel_on_one_host=options.parallel_on_one_host
        )
        self._base = str(config.hydra.sweep.dir)
        self._count = 0
        self._settings: dict[Setting, JobSettings] = {}

    @property
    def runs(self) -> Path:
        """The directory of the scenario's runs."""
        return self._sweep(self._config).runs

    def settings(self, setting: Setting) -> JobSettings:
        """What a setting is configured for, every value checked.

        Raises:
            ConfigurationError: a value cannot be used.
            HydraException: it cannot be composed.
        """
        if setting not in self._settings:
            composed = self._sweep(self._config).composed(self._space.point(setting))
            self._settings[setting] = settings_of(composed, composed.hydra)
        return self._settings[setting]

    def identity(self, setting: Setting) -> str:
        """What two settings have in common that are the same: some overrides say what the reference has."""
        found = self.settings(setting)
        return json.dumps([found.client.name, found.client_options, found.parameters], sort_keys=True, default=str)

    def each(self) -> list[JobSettings]:
        """The reference, and settings of which every value is one; equal ones once.

        Raises:
            ConfigurationError: a value cannot be used.
            HydraException: one cannot be composed.
        """
        every = [REFERENCE, *(one for settings in self._space.each_value().values() for one in settings)]
        return [self.settings(one) for one in {self.identity(one): one for one in every}.values()]

    def check(self, *, makes: bool = True) -> None:
        """Refuse what a sweep over the same values would be refused for, before anything is measured.

        Args:
            makes: as of :meth:`bucketbench.sweep.sweep.Sweep.check`.

        Raises:
            UsageError: says what to change.
        """
        if Nodes.from_environment().count > 1:
            raise ConfigurationError(
                "hydra/sweeper=optuna searches on one machine, and several nodes run this command: start it once, or "
                "sweep the keys without it"
            )
        check_repeats([(repeat,) for repeat in self._space.repeats])
        apart = [[self.settings(one) for one in settings] for settings in self._space.each_value().values()]
        self._sweep(self._config).check(self.each(), None, apart=apart, makes=makes)
        for number in range(1, self._options.most_rounds(self._space.size) + 1):
            self._sweep(self._placed(number)).check_free()

    def refused(self, settings: Sequence[Setting]) -> dict[Setting, str]:
        """Those of some settings that cannot be run, though each of their values can, and why."""
        try:
            self._sweep(self._config).check([self.settings(one) for one in settings], None, apart=())
        except UsageError:
            pass
        else:
            return {}
        reasons = {}
        for setting in settings:
            try:
                self._sweep(self._config).check([self.settings(setting)], None, apart=())
            except UsageError as error:
                reasons[setting] = str(error)
        return reasons

    def run(
        self, settings: Sequence[Setting], repeats: Sequence[str], arguments: Sequence[str]
    ) -> tuple[list[JobReturn], dict[Setting, Measured]]:
        """Measure settings in turns, as a run of its own.

        Args:
            settings: which ones.
            repeats: the override of each repeat.
            arguments: the overrides of the command.
        """
        self._count += 1
        config = self._placed(self._count)
        order = self._order(settings, len(repeats))
        points = [(*self._space.point(setting), repeats[place]) for place, setting in order]
        varying = tuple(key.lstrip("+~") for key in self._space.searched)
        returns = self._sweep(config, Points(points=points, varying=varying)).run(arguments)
        record = RunRecord.read(Path(str(config.hydra.sweep.dir)))
        if record is not None:
            record.write_results(ended=True)
        with open_dict(self._config):
            # What ends the program reads the last round's directory from it, and prints its table.
            self._config.hydra.sweep.dir = str(config.hydra.sweep.dir)
        jobs: dict[Setting, dict[int, JobResult | str]] = {setting: {} for setting in settings}
        for number, (repeat, setting) in enumerate(order):
            jobs[setting][repeat] = result_of(returns[number]) if number < len(returns) else "it has no result"
        names = {"figure": self._figure, "memory_figure": self._options.memory_figure}
        return returns, {setting: Measured.of(setting, found, **names) for setting, found in jobs.items()}

    def _sweep(self, config: DictConfig, points: Points | None = None) -> Sweep:
        parts: Any = (self._context, self._task_function, config)
        if points is None:
            return Sweep(*parts, options=self._launching)
        return _Round(*parts, options=self._launching, points=points)

    def _placed(self, number: int) -> DictConfig:
        """The configuration of a round, with a directory of its own."""
        config = copy.deepcopy(self._config)
        with open_dict(config):
            config.hydra.sweep.dir = f"{self._base}-{number:02d}"
        return config

    def _order(self, settings: Sequence[Setting], repeats: int) -> list[tuple[int, Setting]]:
        """The settings of each repeat, after the first in an order of its own, as a sweep has its clients."""
        found: list[tuple[int, Setting]] = []
        for repeat in range(repeats):
            block = list(settings)
            if repeat:
                draw = random.Random(f"{self._options.seed}/{self._count}/{repeat}")  # noqa: S311 - an order, not a secret
                draw.shuffle(block)
            found += [(repeat, setting) for setting in block]
        return found


def result_of(job: JobReturn) -> JobResult | str:
    """The result of a job, or why there is none."""
    if job.status is not JobStatus.COMPLETED:
        return f"the job could not be run: {reason_of(job._return_value)}"
    result: JobResult = job.return_value
    return result
