"""Says what a finished run found, from its result files alone."""

from __future__ import annotations

from bucketbench.report.runs import Run, load_run, newest_run
from bucketbench.report.table import render_table

__all__ = ["Run", "load_run", "newest_run", "render_table"]
