"""How the report shows the dataset scenario."""

from __future__ import annotations

from typing import Final

from bucketbench.scenarios.presentation import Column, TableForm

__all__ = ["TABLE"]

TABLE: Final = TableForm(
    columns=(
        Column(heading="MiB/s", figure="throughput_mibs", spread=True),
        Column(heading="samples/s", figure="samples_per_s"),
        Column(heading="accelerator use %", figure="accelerator_utilisation_percent", optional=True),
        Column(heading="in flight", figure="requests_in_flight"),
        Column(heading="p50 ms", figure="latency_p50_s", scale=1000),
        Column(heading="p95 ms", figure="latency_p95_s", scale=1000),
        Column(heading="CPU s/GiB", figure="cpu_s_per_gib"),
        Column(heading="added MiB", figure="added_memory_mib"),
    ),
    legend="Medians over the repeats; ± is the greatest distance of a repeat from the median. p50 and p95 are of the "
    "fetch of one batch, without decoding. In flight are the requests that the server answered at once, on average. "
    "Added is memory beyond that of a trainer without a client, a fork server left out. Start is how workers start.",
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
)
