"""Raw records in, figures out: what a job measured, what its repeats say together, and which client won.

Nothing here reads a file, prints, or knows Hydra, a client or a scenario by name. Every function is pure: safe in any
thread, the same result for the same input, whatever its order.
"""

from __future__ import annotations

from bucketbench.statistics.figures import FIGURE_UNITS, GIB, MIB, ServerCounts, job_figures, unmeasured_figures
from bucketbench.statistics.percentiles import P99_MINIMUM_OPERATIONS, median, percentile

__all__ = [
    "FIGURE_UNITS",
    "GIB",
    "MIB",
    "P99_MINIMUM_OPERATIONS",
    "ServerCounts",
    "job_figures",
    "median",
    "percentile",
    "unmeasured_figures",
]
