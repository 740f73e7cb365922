"""Describes jobs of distributed checkpoints to the measured ranks: who saves and loads, and where."""

from __future__ import annotations

from pathlib import Path

from bucketbench.checkpointing.distributed_job import DistributedCheckpointingJob
from bucketbench.checkpointing.distributed_settings import DistributedCheckpointingSettings
from bucketbench.checkpointing.keeping import placed_fields
from bucketbench.checkpointing.preparation import CheckpointingPreparation
from bucketbench.clients.protocol import Target
from bucketbench.scenarios.scenario import Places

__all__ = ["DistributedCheckpointingPreparation"]


class DistributedCheckpointingPreparation:
    """Starts the testbed that jobs save to. Arguments as of :class:`CheckpointingPreparation`."""

    def __init__(self, directory: Path, places: Places, /) -> None:
        self._common = CheckpointingPreparation(directory, places)

    def prepare(self, settings: DistributedCheckpointingSettings) -> None:
        """Start the job's testbed."""
        self._common.prepare(settings)

    def job(self, settings: DistributedCheckpointingSettings) -> DistributedCheckpointingJob:
        """The job."""
        config = settings.config
        fields = placed_fields(self._common.fields(settings), settings)
        if settings.scheme == "file":
            prefix = fields["local_directory"].strip("/")
            fields["target"] = Target(scheme="file", bucket="", prefix=f"{prefix}/")
        return DistributedCheckpointingJob(
            **fields,
            action=settings.action,
            save_ranks=settings.save_ranks,
            load_ranks=settings.load_ranks,
            backend=config["backend"],
            async_checkpointer=config["async_checkpointer"],
            reuse_stager=config["reuse_stager"],
            verify=config["verify"],
            steps_per_save=config["steps_per_save"],
            step_time_s=config["step_time_s"],
        )
