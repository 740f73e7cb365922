"""The sweeper that checks every point before the first job, and interleaves the repeats of all clients."""

from __future__ import annotations

from typing import Any

from hydra.core.utils import JobReturn
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

__all__ = ["InterleavingSweeper"]


class InterleavingSweeper(Sweeper):
    """Runs the jobs of bucketbench's scenarios; ``conf/hydra/sweeper/interleaving.yaml`` explains its options.

    Args:
        params: swept values, by key, as Hydra's own sweeper takes them.
        jobs_at_once: how many jobs the launcher gets at once; None for all.
        parallel_on_one_host: whether jobs may be measured at the same time on one machine.
        order_seed: draws the order of the clients in each repeat after the first; None keeps one order.
        dry_run: whether the points are told, and nothing is run or made.
    """

    def __init__(
        self,
        params: dict[str, Any] | None = None,
        jobs_at_once: int | None = 1,
        parallel_on_one_host: bool = False,
        order_seed: int | None = 0,
        dry_run: bool = False,
    ) -> None:
        self._options = {
            "params": dict(params or {}),
            "jobs_at_once": jobs_at_once,
            "parallel_on_one_host": parallel_on_one_host,
            "order_seed": order_seed,
            "dry_run": dry_run,
        }

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Keep what a sweep needs."""
        self.hydra_context = hydra_context
        self.config = config
        self._task_function = task_function

    def sweep(self, arguments: list[str]) -> list[JobReturn]:
        """Run the sweep that the overrides ask for."""
        from bucketbench.sweep.sweep import Sweep  # here, since every Hydra program imports this module

        assert self.hydra_context is not None
        assert self.config is not None
        return Sweep(self.hydra_context, self._task_function, self.config, **self._options).run(arguments)
