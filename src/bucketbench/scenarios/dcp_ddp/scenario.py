"""The scenario of distributed checkpoints of a state that every rank has, as with DDP."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from bucketbench.checkpointing.distributed_settings import DistributedCheckpointingSettings
from bucketbench.checkpointing.figures import FIGURES
from bucketbench.checkpointing.table import DISTRIBUTED_TABLE
from bucketbench.scenarios.scenario import Scenario

__all__ = ["SCENARIO"]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Settings(DistributedCheckpointingSettings):
    """One point of a sweep: every rank has all of the state."""

    replicated: ClassVar[bool] = True


SCENARIO: Final = Scenario(
    name="dcp_ddp",
    settings=_Settings,
    preparation="bucketbench.checkpointing.distributed_preparation.DistributedCheckpointingPreparation",
    measurement="bucketbench.scenarios.dcp_ddp.measurement.measure",
    figures=FIGURES,
    table=DISTRIBUTED_TABLE,
    clients="dcp",
    keeps_objects=False,
    tunable=("thread_count", "async_checkpointer", "reuse_stager"),
)
