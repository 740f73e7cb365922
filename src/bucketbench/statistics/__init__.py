"""Raw records in, figures out: what a job measured, what its repeats say together, and which client won.

Nothing here reads a file, prints, or knows Hydra, a client or a scenario by name. Every function is pure: safe in any
thread, and the same result for the same input.
"""

from __future__ import annotations

from bucketbench.statistics.change_points import FEWEST_VALUES, ChangePoint, change_points
from bucketbench.statistics.comparison import Comparison, ahead_of, compare
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
from bucketbench.statistics.percentiles import least_operations, median, percentile, percentile_figure
from bucketbench.statistics.summary import (
    FigureSummary,
    IncomparableError,
    MeasuredJob,
    RepeatedMark,
    Role,
    Status,
    Summary,
    summarise,
)
from bucketbench.statistics.traffic import Traffic
from bucketbench.statistics.unpaired import unpaired_obstacle, unpaired_ratio, unpaired_ratio_interval

__all__ = [
    "CONFIDENCE",
    "FEWEST_VALUES",
    "GIB",
    "MIB",
    "MINIMUM_REPEATS",
    "Better",
    "ChangePoint",
    "Comparison",
    "Contest",
    "FigureKind",
    "FigureSet",
    "FigureSummary",
    "IncomparableError",
    "Interval",
    "MeasuredJob",
    "RepeatedMark",
    "Role",
    "ServerCounts",
    "Status",
    "Summary",
    "Traffic",
    "Verdict",
    "ahead_of",
    "change_points",
    "compare",
    "hold_contests",
    "interval_obstacle",
    "least_operations",
    "median",
    "median_interval",
    "percentile",
    "percentile_figure",
    "ratio_interval",
    "summarise",
    "unpaired_obstacle",
    "unpaired_ratio",
    "unpaired_ratio_interval",
]
