"""Describes jobs of sharded trainings to the measured ranks: what is done, and where."""

from __future__ import annotations

from bucketbench.checkpointing.keeping import KeepingJob, placed_fields
from bucketbench.checkpointing.preparation import CheckpointingPreparation
from bucketbench.checkpointing.settings import CheckpointingSettings
from bucketbench.scenarios.lightning_fsdp.settings import ShardedTrainingSettings

__all__ = ["ShardedTrainingPreparation"]


class ShardedTrainingPreparation(CheckpointingPreparation):
    """Starts the testbed that jobs save to. Arguments likewise."""

    def job(self, settings: CheckpointingSettings) -> KeepingJob:
        """The job."""
        assert isinstance(settings, ShardedTrainingSettings)
        return KeepingJob(
            **placed_fields(self.fields(settings), settings),
            action=settings.action,
            verify=settings.config["verify"],
        )
