"""The schema of the scenarios that save and load checkpoints, and which values its keys take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Optional

from bucketbench.checkpointing.state import MODEL_NAMES
from bucketbench.configuration.schema import MISSING, ScenarioConfig
from bucketbench.configuration.values import Rule, one_of, optional, prefix, whole

__all__ = ["NUMBER_OF_STEPS", "RULES", "CheckpointConfig", "CheckpointingConfig"]

_MAX_STEPS: Final = 10_000

NUMBER_OF_STEPS: Final[Rule] = (
    lambda value: value == "auto" or whole(1, _MAX_STEPS)[0](value),
    f"auto, or a whole number from 1 to {_MAX_STEPS}",
)
"""How many checkpoints a job saves and loads."""

# OmegaConf reads the annotations of these classes at run time and knows Optional[...] in every version of Python.
# ruff: noqa: UP045


@dataclass(kw_only=True)
class CheckpointConfig:
    """What is saved. Every key is explained in ``conf/checkpoint/*.yaml``."""

    model: str = MISSING
    layers: Optional[int] = None
    tensors: Any = None
    size: Any = None
    seed: int = 0


@dataclass(kw_only=True)
class CheckpointingConfig(ScenarioConfig):
    """A scenario that saves and loads checkpoints. Every key is explained in its file, such as
    ``conf/pytorch_checkpointing.yaml``.
    """

    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    steps: Any = "auto"
    save_only_latest: bool = False
    clear_kernel_cache: bool = False
    disable_multipart: bool = False
    warmup: bool = True
    prefix: Optional[str] = None


RULES: Final[Mapping[str, Rule]] = {
    "checkpoint.model": one_of(MODEL_NAMES),
    "checkpoint.layers": optional(whole(1, 100_000), "null or a whole number from 1 to 100000"),
    "checkpoint.seed": whole(0, 2**63 - 1),
    "steps": NUMBER_OF_STEPS,
    "prefix": prefix,
}
"""The values of the scenarios' own keys."""
