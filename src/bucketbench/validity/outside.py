"""Figures of processes that work for the client outside its tree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from bucketbench.records import Figure

__all__ = ["without_outside"]

_OF_PROCESSES: Final = (
    "cpu_s", "cpu_s_per_gib", "peak_rss_mib", "added_memory_mib", "cpu_us_per_name", "save_cpu_s_per_gib",
    "load_cpu_s_per_gib", "save_memory_mib", "load_memory_mib",
)  # fmt: skip


def without_outside(figures: Mapping[str, Figure], details: Mapping[str, str]) -> dict[str, Figure]:
    """The figures, but those of CPU and memory where most of that was used outside the measured processes.

    A mounted bucket is served by a process of its own, which belongs to no job: what the client itself uses says
    nothing of the way to read.
    """
    if details.get("reads_through") != "mount":
        return dict(figures)
    reason = "the process that serves the mounted bucket does the work, and is not among those that are measured"
    return {
        name: Figure(unit=figure.unit, reason=reason) if name in _OF_PROCESSES else figure
        for name, figure in figures.items()
    }
