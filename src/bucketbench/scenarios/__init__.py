"""The scenarios: each is a package here with everything that is its own, and nothing else knows one by name.

A scenario's package has these modules, each imported only by the process that needs it, so that a report pays for no
data generator and a measured process for no other scenario:

- ``schema``: names, types and values of the configuration's keys; ``settings``: what a composed configuration says;
- ``job``: the job as the measured process receives it; ``preparation``: what is made before jobs run, and how they are
  described; ``sweep``: these together, as ``SWEPT``, for the sweep's process;
- ``measurement``: ``JOB``, the job's class, and ``run(job, recorder)``, for the measured process;
- ``figures``: ``FIGURES``, derived from raw records; ``table``: ``TABLE``, how the report shows them.

A scenario knows no client by name. The modules beside the packages are what scenarios share.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final, cast

from bucketbench.errors import UsageError

if TYPE_CHECKING:
    from bucketbench.scenarios.preparation import SweptScenario
    from bucketbench.scenarios.presentation import TableForm
    from bucketbench.scenarios.recording import MeasuredScenario
    from bucketbench.statistics import FigureSet

__all__ = ["SCENARIOS", "figures_of", "measurement_of", "swept", "table_of"]

SCENARIOS: Final = {"dataset": "bucketbench.scenarios.dataset", "listing": "bucketbench.scenarios.listing"}
"""The package of each scenario."""


def swept(name: str) -> SweptScenario:
    """What a sweep's process needs to know of a scenario.

    Raises:
        UsageError: there is no such scenario. The functions below raise it too.
    """
    return cast("SweptScenario", _module(name, "sweep").SWEPT)


def measurement_of(name: str) -> MeasuredScenario:
    """A scenario's measurement, for the measured process."""
    return cast("MeasuredScenario", _module(name, "measurement"))


def figures_of(name: str) -> FigureSet:
    """The figures of a scenario's jobs."""
    return cast("FigureSet", _module(name, "figures").FIGURES)


def table_of(name: str) -> TableForm:
    """How the report shows a scenario's figures."""
    return cast("TableForm", _module(name, "table").TABLE)


def _module(name: str, part: str) -> Any:
    if name not in SCENARIOS:
        raise UsageError(f"there is no scenario {name!r}; the scenarios are: {', '.join(SCENARIOS)}")
    return importlib.import_module(f"{SCENARIOS[name]}.{part}")
