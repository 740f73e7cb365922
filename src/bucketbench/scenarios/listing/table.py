"""How the report shows the listing scenario."""

from __future__ import annotations

from typing import Final

from bucketbench.records import OperationKind
from bucketbench.scenarios.presentation import Column, Panel, Stream, TableForm

__all__ = ["TABLE"]

TABLE: Final = TableForm(
    columns=(
        Column(heading="names/s", figure="names_per_s", spread=True),
        Column(heading="to list s", figure="list_s"),
        Column(heading="first name ms", figure="time_to_first_name_s", scale=1000),
        Column(heading="requests", figure="requests_per_listing"),
        Column(heading="in flight", figure="requests_in_flight"),
        Column(heading="CPU µs/name", figure="cpu_us_per_name"),
        Column(heading="memory B/name", figure="memory_bytes_per_name"),
        Column(heading="added MiB", figure="added_memory_mib"),
    ),
    legend="Medians over the repeats; ± is the greatest distance of a repeat from the median. Requests are those of "
    "one listing, as the server counted them; in flight are those that it answered at once, on average. Memory is what "
    "the client holds when all names are there; added is all beyond that of a process with torch.",
    counted="names",
    headline=("names_per_s",),
    duration="list_s",
    medians=(
        "list_s",
        "names_per_s",
        "time_to_first_name_s",
        "requests_per_listing",
        "pages_per_listing",
        "cpu_us_per_name",
        "memory_bytes_per_name",
        "cpu_s",
        "peak_rss_mib",
        "added_memory_mib",
        "requests_in_flight",
    ),
    spreads=("list_s", "names_per_s"),
    panels=(
        Panel("Waiting", ("list_s", "time_to_first_name_s")),
        Panel("Memory and CPU", ("added_memory_mib", "memory_bytes_per_name", "cpu_us_per_name")),
        Panel("What the server saw", ("requests_per_listing", "pages_per_listing", "requests_in_flight")),
    ),
    streams=(Stream(kind=OperationKind.FETCH, title="listing", amount="samples", unit="names/s", scale=1),),
)
