"""One point of a sweep in which the ranks of a trainer save and load checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from bucketbench.checkpointing.course import Action
from bucketbench.checkpointing.keeping import KeepingSettings
from bucketbench.configuration.schema import ScenarioConfig
from bucketbench.configuration.values import Rule
from bucketbench.errors import PreflightError
from bucketbench.scenarios.lightning_fsdp.schema import SHARDED_TRAINING_RULES, ShardedTrainingConfig

__all__ = ["ShardedTrainingSettings"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ShardedTrainingSettings(KeepingSettings):
    """The composed configuration of one job that saves and loads the checkpoints of a sharded model."""

    schema: ClassVar[type[ScenarioConfig]] = ShardedTrainingConfig
    rules: ClassVar[Mapping[str, Rule]] = SHARDED_TRAINING_RULES
    no_parameters: ClassVar[frozenset[str]] = frozenset({"prefix", "path", "checkpoint.size", "verify"})

    def own_parameters(self) -> dict[str, Any]:
        """What is saved, how often, and how; whether a save is verified where a job only saves."""
        found = KeepingSettings.own_parameters(self)
        if self.action is Action.SAVE:
            found["verify"] = self.config["verify"]
        if self.config["path"] is not None:
            found["path"] = str(self.local_root)
        return found

    @property
    def state_copies(self) -> int:
        """How often the state is in memory at once: every rank makes all of it, and keeps its part."""
        return super(ShardedTrainingSettings, self).state_copies * int(self.config["ranks"])

    def check_ranks(self) -> None:
        """Raise where there is nobody to share a model with, or what cannot be asked of a strategy is."""
        if self.config["ranks"] < 2:
            raise PreflightError(f"ranks={self.config['ranks']}: a model is shared out over ranks, take 2 or more")
        if self.config["disable_multipart"]:
            raise PreflightError("disable_multipart=true: no strategy can be told so")
