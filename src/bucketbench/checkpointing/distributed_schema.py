"""The schema of the scenarios of distributed checkpoints, and which values their keys take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Optional

from bucketbench.checkpointing.course import Action
from bucketbench.checkpointing.optimizer import OPTIMIZERS
from bucketbench.checkpointing.schema import NUMBER_OF_STEPS, RULES, CheckpointConfig, CheckpointingConfig
from bucketbench.configuration.schema import WORKLOAD_RULES, WorkloadConfig
from bucketbench.configuration.values import Rule, one_of, optional, positive, whole
from bucketbench.ranks import BACKENDS

__all__ = ["DISTRIBUTED_RULES", "DistributedCheckpointConfig", "DistributedCheckpointingConfig"]

# OmegaConf reads the annotations of these classes at run time and knows Optional[...] in every version of Python.
# ruff: noqa: UP045


@dataclass(kw_only=True)
class DistributedCheckpointConfig(CheckpointConfig):
    """What is saved, and onto what. Every key is explained in ``conf/checkpoint/*.yaml`` and ``conf/dcp_*.yaml``."""

    optimizer: str = "none"
    storage: str = "bucket"


@dataclass(kw_only=True)
class DistributedCheckpointingConfig(CheckpointingConfig):
    """A scenario of distributed checkpoints. Every key is explained in its file, such as ``conf/dcp_fsdp.yaml``."""

    checkpoint: DistributedCheckpointConfig = field(default_factory=DistributedCheckpointConfig)
    workload: WorkloadConfig = field(default_factory=WorkloadConfig)
    action: str = Action.SAVE_AND_LOAD.value
    world_size: Optional[int] = None
    load_ranks: Optional[int] = None
    backend: str = "gloo"
    thread_count: Optional[int] = None
    async_checkpointer: str = "thread"
    reuse_stager: bool = False
    epochs: Any = None
    steps_per_save: int = 0
    step_time_s: float = 0.1
    verify: bool = True
    path: Optional[str] = None


_RANKS: Final = optional(whole(1, 1024), "null or a whole number from 1 to 1024")

DISTRIBUTED_RULES: Final[Mapping[str, Rule]] = {
    **RULES,
    **WORKLOAD_RULES,
    "checkpoint.optimizer": one_of(OPTIMIZERS),
    "checkpoint.storage": one_of(("bucket", "disk")),
    "action": one_of([action.value for action in Action]),
    "world_size": _RANKS,
    "load_ranks": _RANKS,
    "backend": one_of(BACKENDS),
    "thread_count": optional(whole(1, 256), "null or a whole number from 1 to 256"),
    "async_checkpointer": one_of(("thread", "process")),
    "epochs": optional(NUMBER_OF_STEPS, f"null, {NUMBER_OF_STEPS[1]}"),
    "steps_per_save": whole(0, 100_000),
    "step_time_s": positive(3600),
}
"""The values of the scenarios' own keys."""
