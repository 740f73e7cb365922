"""The schema of the scenario of sharded trainings, and which values its keys take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Optional

from bucketbench.checkpointing.course import Action
from bucketbench.checkpointing.schema import RULES, CheckpointingConfig
from bucketbench.configuration.values import Rule, one_of

__all__ = ["SHARDED_TRAINING_RULES", "ShardedTrainingConfig"]

# OmegaConf reads the annotations of this class at run time and knows Optional[...] in every version of Python.
# ruff: noqa: UP045


@dataclass(kw_only=True)
class ShardedTrainingConfig(CheckpointingConfig):
    """The scenario of sharded trainings. Every key is explained in ``conf/lightning_fsdp.yaml``."""

    action: str = Action.SAVE_AND_LOAD.value
    verify: bool = True
    path: Optional[str] = None


SHARDED_TRAINING_RULES: Final[Mapping[str, Rule]] = {
    **RULES,
    "action": one_of([action.value for action in (Action.SAVE_AND_LOAD, Action.SAVE, Action.LOAD)]),
}
"""The values of the scenario's own keys."""
