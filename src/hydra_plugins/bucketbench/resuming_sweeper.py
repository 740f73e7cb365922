"""The sweeper of ``bucketbench resume``."""

from __future__ import annotations

from hydra.core.utils import JobReturn
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

__all__ = ["ResumingSweeper"]


class ResumingSweeper(Sweeper):
    """Runs the jobs that are missing of a run that ``bucketbench resume`` was given; of no use otherwise."""

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Keep what a sweep needs."""
        self.hydra_context = hydra_context
        self.config = config
        self._task_function = task_function

    def sweep(self, arguments: list[str]) -> list[JobReturn]:
        """Run the jobs."""
        from bucketbench.sweep.resuming import sweep_rest  # here, since every Hydra program imports this module

        del arguments
        assert self.hydra_context is not None
        return sweep_rest(self.hydra_context, self._task_function)
