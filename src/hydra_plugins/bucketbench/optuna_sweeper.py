"""The sweeper that searches the swept keys for the best setting, by Optuna."""

from __future__ import annotations

from typing import Any

from hydra.core.utils import JobReturn
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

__all__ = ["OptunaSweeper"]


class OptunaSweeper(Sweeper):
    """Searches for the best setting; ``conf/hydra/sweeper/optuna.yaml`` explains its options.

    Args:
        params: searched values, by key, as Hydra's own sweeper takes swept ones.
        jobs_at_once: how many jobs the launcher gets at once; None for all of a round.
        parallel_on_one_host: whether jobs may be measured at the same time on one machine.
        options: those of :class:`bucketbench.tuning.options.SearchOptions`.
    """

    def __init__(
        self,
        params: dict[str, Any] | None = None,
        jobs_at_once: int | None = 1,
        parallel_on_one_host: bool = False,
        **options: Any,
    ) -> None:
        self._params = dict(params or {})
        self._launching = {"jobs_at_once": jobs_at_once, "parallel_on_one_host": parallel_on_one_host}
        self._options = options

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Keep what a search needs."""
        self.hydra_context = hydra_context
        self.config = config
        self._task_function = task_function

    def sweep(self, arguments: list[str]) -> list[JobReturn]:
        """Search among the settings that the overrides combine."""
        from bucketbench.tuning.options import SearchOptions  # here, since every Hydra program imports this module
        from bucketbench.tuning.search import Search

        assert self.hydra_context is not None
        assert self.config is not None
        search = Search(
            self.hydra_context,
            self._task_function,
            self.config,
            params=self._params,
            options=SearchOptions(**self._options),
            launching=self._launching,
        )
        return search.run(arguments)
