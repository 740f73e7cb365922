"""The scenario of sharded Lightning trainings. What it shares with others is in ``bucketbench.checkpointing``."""

from __future__ import annotations

from typing import Final

from bucketbench.checkpointing.figures import FIGURES
from bucketbench.checkpointing.table import DISTRIBUTED_TABLE
from bucketbench.scenarios.lightning_fsdp.settings import ShardedTrainingSettings
from bucketbench.scenarios.scenario import Scenario

__all__ = ["SCENARIO"]

SCENARIO: Final = Scenario(
    name="lightning_fsdp",
    settings=ShardedTrainingSettings,
    preparation="bucketbench.scenarios.lightning_fsdp.preparation.ShardedTrainingPreparation",
    measurement="bucketbench.scenarios.lightning_fsdp.measurement.measure",
    figures=FIGURES,
    table=DISTRIBUTED_TABLE,
    # Checkpoints are few at a time, and a disk would be measured instead of a client.
    keeps_objects=False,
)
