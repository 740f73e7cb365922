"""Prepares nothing but a testbed: the jobs make what they save. Describes them to the measured processes."""

from __future__ import annotations

import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from bucketbench.checkpointing.job import CheckpointingJob
from bucketbench.checkpointing.settings import CheckpointingSettings
from bucketbench.scenarios.scenario import Places

__all__ = ["CheckpointingPreparation"]

_KEYS: Final = f"bucketbench-{uuid.uuid4().hex}/"
"""Begins the keys of all jobs that this process runs, one after another.

Jobs of other processes may run at once and have the same bucket and prefix: they must neither read nor remove what this
one saves. What a job that was killed has left is replaced by the next one.
"""


class CheckpointingPreparation:
    """Starts the testbed that jobs save to.

    Args:
        directory: the run's own, in which nothing is left.
        places: where the checkpoints lie.
    """

    def __init__(self, directory: Path, places: Places, /) -> None:
        del directory
        self._places = places

    def prepare(self, settings: CheckpointingSettings) -> None:
        """Start the job's testbed."""
        self._places.testbed(settings)

    def job(self, settings: CheckpointingSettings) -> CheckpointingJob:
        """The job."""
        return CheckpointingJob(**self.fields(settings))

    def fields(self, settings: CheckpointingSettings) -> dict[str, Any]:
        """The fields of a job."""
        testbed, target = self._places.testbed(settings), self._places.target(settings)
        config = settings.config
        return {
            "client": settings.client,
            "target": replace(target, prefix=target.prefix + _KEYS),
            "min_measured_s": config["min_measured_s"],
            "admin_url": None if testbed is None else testbed.admin,
            "state": settings.state,
            "steps": settings.steps,
            "save_only_latest": config["save_only_latest"],
            "clear_kernel_cache": config["clear_kernel_cache"],
            "multipart": not config["disable_multipart"],
            "warmup": config["warmup"],
            "local_directory": str(settings.cache_directory / f"checkpoints-{uuid.uuid4().hex}"),
        }
