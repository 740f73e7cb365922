"""The sweeper that searches the swept keys for the best setting, by Optuna."""

from __future__ import annotations

from hydra.core.utils import JobReturn

from hydra_plugins.bucketbench._sweeper import OwnSweeper

__all__ = ["OptunaSweeper"]


class OptunaSweeper(OwnSweeper):
    """Searches for the best setting; ``conf/hydra/sweeper/optuna.yaml`` explains its options."""

    def sweep(self, arguments: list[str]) -> list[JobReturn]:
        """Search among the settings that the overrides combine."""
        from bucketbench.tuning.options import SearchOptions  # here, since every Hydra program imports this module
        from bucketbench.tuning.search import Search

        return Search(*self._hydra, options=SearchOptions.of(self._options)).run(arguments)
