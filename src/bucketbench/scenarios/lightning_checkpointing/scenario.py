"""The scenario of Lightning's checkpoints. What it shares with others is in ``bucketbench.checkpointing``."""

from __future__ import annotations

from typing import Final

from bucketbench.checkpointing.figures import FIGURES
from bucketbench.checkpointing.settings import CheckpointingSettings
from bucketbench.checkpointing.table import TABLE
from bucketbench.scenarios.scenario import Scenario

__all__ = ["SCENARIO"]

SCENARIO: Final = Scenario(
    name="lightning_checkpointing",
    settings=CheckpointingSettings,
    preparation="bucketbench.checkpointing.preparation.CheckpointingPreparation",
    measurement="bucketbench.scenarios.lightning_checkpointing.measurement.measure",
    figures=FIGURES,
    table=TABLE,
    # Checkpoints are removed as soon as they were loaded, and a disk would be measured instead of a client.
    keeps_objects=False,
)
