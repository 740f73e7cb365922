"""How the report shows the scenarios that save and load checkpoints."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from bucketbench.records import OperationKind
from bucketbench.scenarios.presentation import Column, Panel, Stream, TableForm

__all__ = ["DISTRIBUTED_TABLE", "TABLE"]

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
    panels=(
        Panel("Waiting", ("save_s", "load_s", "blocked_s")),
        Panel("Memory and CPU", ("save_memory_mib", "load_memory_mib", "save_cpu_s_per_gib", "load_cpu_s_per_gib")),
        Panel(
            "What the server saw",
            (
                "requests_per_save",
                "requests_per_load",
                "requests_in_flight",
                "server_bytes_in_mib",
                "server_bytes_out_mib",
            ),
        ),
    ),
    carries="upload",
    streams=(
        Stream(kind=OperationKind.SAVE, title="save"),
        Stream(kind=OperationKind.LOAD, title="load"),
    ),
)

DISTRIBUTED_TABLE: Final = replace(
    TABLE,
    columns=(
        # A job may measure saves or loads alone, and has no columns of the other then.
        *(replace(column, optional=True) for column in TABLE.columns[:4]),
        Column(heading="stall ms", figure="stalled_s", scale=1000, optional=True),
        *(replace(column, optional=True) for column in TABLE.columns[4:]),
        Column(heading="load wire", figure="read_amplification", optional=True),
    ),
    legend=f"{TABLE.legend} Stall is how long a save kept the training from its next steps, the wait for one that they "
    "were too short for included. Load wire is the bytes that the server sent of a checkpoint, over its own: 1 is each "
    "byte once, whatever the number of ranks.",
    medians=(*TABLE.medians, "stalled_s", "write_amplification", "read_amplification"),
)
