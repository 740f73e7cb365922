"""The scenario of distributed checkpoints of a state of which every rank has rows, as with FSDP."""

from __future__ import annotations

from typing import Final

from bucketbench.checkpointing.distributed_settings import DistributedCheckpointingSettings
from bucketbench.checkpointing.figures import FIGURES
from bucketbench.checkpointing.table import DISTRIBUTED_TABLE
from bucketbench.scenarios.scenario import Scenario

__all__ = ["SCENARIO"]

SCENARIO: Final = Scenario(
    name="dcp_fsdp",
    settings=DistributedCheckpointingSettings,
    preparation="bucketbench.checkpointing.distributed_preparation.DistributedCheckpointingPreparation",
    measurement="bucketbench.scenarios.dcp_fsdp.measurement.measure",
    figures=FIGURES,
    table=DISTRIBUTED_TABLE,
    clients="dcp",
    keeps_objects=False,
    tunable=("thread_count", "async_checkpointer", "reuse_stager"),
)
