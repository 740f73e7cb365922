"""What a scenario is: one value that says how it is configured, prepared, measured, and shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from bucketbench.clients.protocol import Target
from bucketbench.configuration.settings import JobSettings
from bucketbench.imports import imported
from bucketbench.job.description import Job
from bucketbench.scenarios.presentation import TableForm
from bucketbench.statistics import FigureSet
from buckettestbed.launch import RunningTestbed

__all__ = ["Places", "Preparation", "Scenario", "write_options"]


class Places(Protocol):
    """Where the objects of jobs lie; see :class:`bucketbench.job.testbeds.Testbeds`."""

    def target(self, settings: JobSettings) -> Target:
        """Where the job's objects lie; starts the testbed that serves them where it does not run yet."""

    def maker_target(self, settings: JobSettings) -> Target:
        """The same place as the objects are written to it."""

    def testbed(self, settings: JobSettings) -> RunningTestbed | None:
        """The testbed of the job, None for a real service; starts it where it does not run yet."""


class Preparation(Protocol):
    """Makes what jobs need, and describes them to the measured processes."""

    def prepare(self, settings: Any) -> None:
        """Make what a job needs, unless an earlier one of the same run had it made.

        Args:
            settings: the scenario's own.

        Raises:
            UsageError: it cannot be made.
            DatagenError: likewise.
            TestbedError: the testbed does not start.
        """

    def job(self, settings: Any) -> Job:
        """The description of a job for which ``prepare`` was called, in this process or another one."""


class PreparationFactory(Protocol):
    """Makes a preparation: its class."""

    def __call__(self, directory: Path, places: Places, /) -> Preparation:
        """Prepare the jobs of the run in ``directory``, whose objects lie at ``places``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Scenario:
    """One scenario. Its module is named like its configuration file and has it as ``SCENARIO``.

    Two of its parts are named by dotted path and imported where they are used, so that a report pays for no data
    generator, a sweep's process for no torch, and a measured process for neither Hydra nor the other scenarios.

    Args:
        name: of its configuration file and of the directory of its runs.
        settings: what a composed configuration says; it has the schema too.
        preparation: dotted path of the class that makes what jobs need, a :class:`Preparation`.
        measurement: dotted path of the function that a measured process calls, see
            :class:`bucketbench.scenarios.recording.MeasuredScenario`.
        figures: what is derived from the raw records of a job.
        table: how the report shows the figures.
        clients: the folder in ``conf/`` that its clients are in, where that has not the scenario's name.
        keeps_objects: whether the testbed keeps the scenario's objects in ``cache_dir`` from run to run; in memory
            otherwise.
        tunable: the keys beside clients' options that are the user's to choose for the same work, that which matters
            most first; what else a sweep varies makes it other work.
    """

    name: str
    settings: type[JobSettings]
    preparation: str
    measurement: str
    figures: FigureSet
    table: TableForm
    clients: str | None = None
    keeps_objects: bool = True
    tunable: tuple[str, ...] = ()

    def prepared_in(self, directory: Path, places: Places) -> Preparation:
        """The preparation of the run in ``directory``."""
        factory: PreparationFactory = imported(self.preparation)
        return factory(directory, places)


def write_options(settings: JobSettings, target: Target) -> Mapping[str, Any]:
    """The options of torchbucket's store with which the objects of a job are written and looked for."""
    return {
        "region": target.region,
        "endpoint": target.endpoint,
        "path_style": target.path_style if target.scheme == "s3" else None,  # Cloud Storage has no other style
        "anonymous": target.anonymous or settings.uses_testbed,
        "ca_bundle": target.ca_bundle,
    }
