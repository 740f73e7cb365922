"""What a sweep's process asks of a scenario: its settings, and the objects and descriptions of its jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from bucketbench.clients.protocol import Target
from bucketbench.configuration.settings import JobSettings
from bucketbench.job import Job
from buckettestbed.launch import RunningTestbed

__all__ = ["Grounds", "Preparation", "SweptScenario", "write_options"]


class Grounds(Protocol):
    """What the jobs of a sweep run on; see :class:`bucketbench.sweep.grounds.SweepGrounds`."""

    def target(self, settings: JobSettings) -> Target:
        """Where the job's objects lie; starts the testbed that serves them where it does not run yet."""

    def maker_target(self, settings: JobSettings) -> Target:
        """The same place as the objects are written to it."""

    def testbed(self, settings: JobSettings) -> RunningTestbed | None:
        """The testbed of the job, None for a real service; starts it where it does not run yet."""


class Preparation(Protocol):
    """Makes what the jobs of one sweep need, and describes them to the measured processes."""

    def prepare(self, settings: Any) -> None:
        """Make what a job needs, unless an earlier one had it made.

        Args:
            settings: the scenario's own.

        Raises:
            UsageError: it cannot be made.
            DatagenError: likewise.
            TestbedError: the testbed does not start.
        """

    def job(self, settings: Any) -> Job:
        """The description of a job for which ``prepare`` was called."""


class PreparationFactory(Protocol):
    """Makes a preparation: its class."""

    def __call__(self, directory: Path, grounds: Grounds, /) -> Preparation:
        """Prepare the jobs of the sweep in ``directory``, on ``grounds``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SweptScenario:
    """A scenario as a sweep's process knows it.

    Args:
        settings: what a composed configuration says; it has the schema too.
        preparation: makes what jobs need.
        client_group: the group of the configuration that ``client=`` chooses from.
        keeps_objects: whether the testbed keeps the scenario's objects in ``cache_dir`` from sweep to sweep; in memory
            otherwise.
    """

    settings: type[JobSettings]
    preparation: PreparationFactory
    client_group: str = "client"
    keeps_objects: bool = True


def write_options(settings: JobSettings, target: Target) -> Mapping[str, Any]:
    """The options of torchbucket's store with which the objects of a job are written and looked for."""
    return {
        "region": target.region,
        "endpoint": target.endpoint,
        "path_style": target.path_style if target.scheme == "s3" else None,  # Cloud Storage has no other style
        "anonymous": target.anonymous or settings.uses_testbed,
        "ca_bundle": target.ca_bundle,
    }
