"""gcs-torch-dataflux's fast listing: processes that list key ranges and take work from one another.

It runs in the peer's own environment: this module may use nothing that is not there.
"""

from __future__ import annotations

import importlib
import multiprocessing
from collections.abc import Iterable

from bucketbench.clients.dataflux import prepare_environment
from bucketbench.clients.listing.protocol import LibraryNames
from bucketbench.clients.protocol import Target

__all__ = ["DatafluxFastList"]


class DatafluxFastList:
    """``dataflux_core.fast_list.ListingController``, which its data sets list by.

    It starts its processes anew each time.

    Args:
        processes: how many; None for the data sets' default, one a core. *Source*: dataflux_pytorch 1.4, ``Config``.
    """

    def __init__(self, *, processes: int | None = None) -> None:
        self._processes = processes or multiprocessing.cpu_count()

    def names(self, target: Target) -> Iterable[tuple[str, int]]:
        """Every object of the target, in no order."""
        prepare_environment(target)
        module = importlib.import_module("dataflux_core.fast_list")  # in its own environment only
        controller = module.ListingController(
            max_parallelism=self._processes,
            project=None,
            bucket=target.bucket,
            sort_results=False,
            prefix=target.prefix,
        )
        return LibraryNames(controller.run())
