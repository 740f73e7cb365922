"""How the report shows the scenarios that save and load checkpoints."""

from __future__ import annotations

from typing import Final

from bucketbench.scenarios.presentation import Column, TableForm

__all__ = ["TABLE"]

TABLE: Final = TableForm(
    columns=(
        Column(heading="save MiB/s", figure="save_mibs", spread=True),
        Column(heading="load MiB/s", figure="load_mibs"),
        Column(heading="block ms", figure="blocked_s", scale=1000, optional=True),
        Column(heading="copy ms", figure="copy_s", scale=1000, optional=True),
        Column(heading="save CPU s/GiB", figure="save_cpu_s_per_gib"),
        Column(heading="load CPU s/GiB", figure="load_cpu_s_per_gib"),
        Column(heading="save + MiB", figure="save_memory_mib"),
        Column(heading="load + MiB", figure="load_memory_mib"),
        Column(heading="save reqs", figure="requests_per_save"),
        Column(heading="load reqs", figure="requests_per_load"),
    ),
    legend="Medians over the repeats; ± is the greatest distance of a repeat from the median. Throughput is the "
    "state's bytes over the seconds until the checkpoint was durable, or loaded. Block is how long a save in the "
    "background kept the training from going on, and copy what copying the state in memory took beside it. + is the "
    "memory that a save or a load added, at most, to that of a process with torch and the state; a load adds at least "
    "the state that it returns. Reqs are the requests of one checkpoint, as the server counted them.",
    counted="checkpoints",
    headline=("save_mibs", "load_mibs"),
    duration="wall_s",
    medians=(
        "save_mibs",
        "load_mibs",
        "save_s",
        "blocked_s",
        "copy_s",
        "load_s",
        "save_cpu_s_per_gib",
        "load_cpu_s_per_gib",
        "save_memory_mib",
        "load_memory_mib",
        "requests_per_save",
        "requests_per_load",
        "peak_rss_mib",
        "added_memory_mib",
    ),
    spreads=("save_mibs", "load_mibs"),
)
