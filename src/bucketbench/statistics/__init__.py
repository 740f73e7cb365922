"""Raw records in, figures out: what a job measured, what its repeats say together, and which client won.

Nothing here reads a file, prints, or knows Hydra, a client or a scenario by name. Every function is pure: safe in any
thread, and the same result for the same input.
"""

from __future__ import annotations

from bucketbench.statistics.comparison import Comparison, compare
from bucketbench.statistics.contest import Contest, Verdict, hold_contests
from bucketbench.statistics.figures import GIB, MIB, Better, FigureKind, FigureSet, ServerCounts
from bucketbench.statistics.intervals import (
    CONFIDENCE,
    MINIMUM_REPEATS,
    Interval,
    interval_obstacle,
    median_interval,
    ratio_interval,
)
from bucketbench.statistics.percentiles import P99_MINIMUM_OPERATIONS, median, percentile
from bucketbench.statistics.summary import (
    FigureSummary,
    IncomparableError,
    MeasuredJob,
    Role,
    Status,
    Summary,
    summarise,
)

__all__ = [
    "CONFIDENCE",
    "GIB",
    "MIB",
    "MINIMUM_REPEATS",
    "P99_MINIMUM_OPERATIONS",
    "Better",
    "Comparison",
    "Contest",
    "FigureKind",
    "FigureSet",
    "FigureSummary",
    "IncomparableError",
    "Interval",
    "MeasuredJob",
    "Role",
    "ServerCounts",
    "Status",
    "Summary",
    "Verdict",
    "compare",
    "hold_contests",
    "interval_obstacle",
    "median",
    "median_interval",
    "percentile",
    "ratio_interval",
    "summarise",
]
