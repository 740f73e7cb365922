"""How the report shows the dataset scenario."""

from __future__ import annotations

from typing import Final

from bucketbench.records import OperationKind
from bucketbench.scenarios.presentation import Column, Panel, Stream, TableForm

__all__ = ["TABLE"]

TABLE: Final = TableForm(
    columns=(
        Column(heading="MiB/s", figure="throughput_mibs", spread=True),
        Column(heading="samples/s", figure="samples_per_s"),
        Column(heading="accelerator use %", figure="accelerator_utilisation_percent", optional=True),
        Column(heading="in flight", figure="requests_in_flight"),
        Column(heading="fetch p95 ms", figure="latency_p95_s", scale=1000, optional=True),
        Column(heading="next() p95 ms", figure="next_p95_s", scale=1000, optional=True),
        Column(heading="CPU s/GiB", figure="cpu_s_per_gib"),
        Column(heading="added MiB", figure="added_memory_mib"),
    ),
    legend="Medians over the repeats; ± is the greatest distance of a repeat from the median. Fetch is "
    "what a map data set takes for one batch, and next() what a stream, which reads ahead, takes to hand one over; "
    "neither with decoding. In flight are the requests that the server answered at once, on average. "
    "Added is memory beyond that of a trainer without a client, a fork server left out. Start, "
    "where it is not the same for all, is how workers start.",
    details=(("start", "start_method"),),
    counted="samples",
    headline=("throughput_mibs", "samples_per_s"),
    duration="wall_s",
    medians=(
        "throughput_mibs",
        "samples_per_s",
        "latency_p50_s",
        "latency_p95_s",
        "latency_p99_s",
        "next_p50_s",
        "next_p95_s",
        "next_p99_s",
        "time_to_first_batch_s",
        "accelerator_utilisation_percent",
        "cpu_s_per_gib",
        "peak_rss_mib",
        "added_memory_mib",
        "requests_in_flight",
        "read_amplification",
    ),
    spreads=("throughput_mibs",),
    least=("accelerator_utilisation_percent", "workload.utilisation_percent"),
    panels=(
        Panel(
            "Latency and waiting",
            ("latency_p95_s", "next_p95_s", "time_to_first_batch_s", "accelerator_utilisation_percent"),
        ),
        Panel("Memory and CPU", ("added_memory_mib", "peak_rss_mib", "cpu_s_per_gib")),
        Panel(
            "What the server saw",
            ("server_requests", "server_bytes_out_mib", "read_amplification", "requests_in_flight"),
        ),
    ),
    streams=(
        Stream(kind=OperationKind.FETCH, title="fetch of a batch from a map data set"),
        Stream(kind=OperationKind.NEXT, title="next() of a batch from a stream"),
    ),
)
