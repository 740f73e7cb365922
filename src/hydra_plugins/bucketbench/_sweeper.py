"""What the sweepers have in common. Hydra looks for plugins in no module whose name begins so."""

from __future__ import annotations

from typing import Any

from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

__all__ = ["HydraParts", "OwnSweeper"]

HydraParts = tuple[HydraContext, TaskFunction, DictConfig]
"""What composes points, what runs a job, and the configuration that all points have in common."""


class OwnSweeper(Sweeper):
    """Keeps what a sweep is made of until it is swept.

    Args:
        options: of ``hydra.sweeper``, as its file has them. Where they are used they are checked, by code that not
            every Hydra program of the environment has to import.
    """

    def __init__(self, **options: Any) -> None:
        self._options = options

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Keep what a sweep needs."""
        self.hydra_context = hydra_context
        self.config = config
        self._task_function = task_function

    @property
    def _hydra(self) -> HydraParts:
        assert self.hydra_context is not None
        assert self.config is not None
        return self.hydra_context, self._task_function, self.config
