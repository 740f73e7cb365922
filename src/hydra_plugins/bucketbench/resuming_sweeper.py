"""The sweeper of ``bucketbench resume``."""

from __future__ import annotations

from hydra.core.utils import JobReturn

from hydra_plugins.bucketbench._sweeper import OwnSweeper

__all__ = ["ResumingSweeper"]


class ResumingSweeper(OwnSweeper):
    """Runs the jobs that are missing of a run that ``bucketbench resume`` was given; of no use otherwise."""

    def sweep(self, arguments: list[str]) -> list[JobReturn]:
        """Run the jobs."""
        from bucketbench.sweep.resuming import sweep_rest  # here, since every Hydra program imports this module

        del arguments
        context, task_function, _ = self._hydra
        return sweep_rest(context, task_function)
