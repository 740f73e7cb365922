"""The sweeper that checks every point before the first job, and interleaves the repeats of all clients."""

from __future__ import annotations

from hydra.core.utils import JobReturn

from hydra_plugins.bucketbench._sweeper import OwnSweeper

__all__ = ["InterleavingSweeper"]


class InterleavingSweeper(OwnSweeper):
    """Runs the jobs of bucketbench's scenarios; ``conf/hydra/sweeper/interleaving.yaml`` explains its options."""

    def sweep(self, arguments: list[str]) -> list[JobReturn]:
        """Run the sweep that the overrides ask for."""
        from bucketbench.sweep.options import SweepOptions  # here, since every Hydra program imports this module
        from bucketbench.sweep.sweep import Sweep

        return Sweep(*self._hydra, options=SweepOptions.of(self._options)).run(arguments)
