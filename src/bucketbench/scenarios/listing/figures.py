"""The figures of a job of the listing scenario, derived from its raw records. docs/figures.md defines them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from bucketbench.records import Operation, OperationKind, Phase, UsageSample
from bucketbench.statistics.figures import Better, FigureKind, FigureSet, ServerCounts
from bucketbench.statistics.percentiles import median
from bucketbench.statistics.usage import (
    NOT_COUNTED,
    SERVER_FIGURES,
    USAGE_FIGURES,
    server_figures,
    traffic_of_windows,
    usage_figures,
)
from bucketbench.statistics.windows import NO_WINDOW, Window, measured_windows, samples_within

__all__ = ["FEWEST_NAMES_FOR_MEMORY", "FIGURES"]

_FIGURES: Final = {
    "list_s": FigureKind("s", Better.LOWER),
    "names_per_s": FigureKind("names/s", Better.HIGHER, contest="speed"),
    "time_to_first_name_s": FigureKind("s", Better.LOWER),
    "listings": FigureKind("listings"),
    "names": FigureKind("names"),
    "errors": FigureKind("names", Better.LOWER),
    "wall_s": FigureKind("s", Better.LOWER),
    "cpu_us_per_name": FigureKind("us", Better.LOWER),
    "memory_bytes_per_name": FigureKind("bytes", Better.LOWER),
    "requests_per_listing": FigureKind("requests", Better.LOWER),
    "pages_per_listing": FigureKind("requests", Better.LOWER),
    **USAGE_FIGURES,
    **SERVER_FIGURES,
}

FEWEST_NAMES_FOR_MEMORY: Final = 50_000
"""Fewest names of a listing whose memory is told. *Source*: ours; a process grows by about a MiB for other reasons."""

_NOTHING_RIGHT: Final = "no name was listed as it should be"


def _values(
    operations: Sequence[Operation], usage: Sequence[UsageSample], server: ServerCounts | None
) -> dict[str, float | str]:
    """Every figure or the reason for having none. Each measured listing is one EPOCH, one FETCH and one WAIT record."""
    measured = [operation for operation in operations if operation.phase is Phase.MEASURE]
    windows = measured_windows(measured)
    listings = [operation for operation in measured if operation.kind is OperationKind.FETCH]
    waits = [operation for operation in measured if operation.kind is OperationKind.WAIT]
    right = sum(listing.samples for listing in listings)
    wrong = sum(listing.errors for listing in listings)
    used, served = usage_figures(operations, usage, windows), server_figures(server, windows)
    return {
        **_speed(windows, right),
        "time_to_first_name_s": median([wait.duration_s for wait in waits]) if waits else NO_WINDOW,
        "listings": len(windows) if windows else NO_WINDOW,
        "names": right if listings else NO_WINDOW,
        "errors": wrong if listings else NO_WINDOW,
        "cpu_us_per_name": _over(used["cpu_s"], right / 1e6),
        "memory_bytes_per_name": _memory(usage, windows, listings),
        **_requests(server, served, len(windows)),
        **used,
        **served,
    }


def _speed(windows: Sequence[Window], right: int) -> dict[str, float | str]:
    # Sorted, because the sum of floats depends on their order and a figure must not.
    wall_s = sum(sorted(window.duration_s for window in windows))
    if not windows:
        return dict.fromkeys(("list_s", "names_per_s", "wall_s"), NO_WINDOW)
    if wall_s <= 0:
        return dict.fromkeys(("list_s", "names_per_s", "wall_s"), "the listings took no time that the clock could tell")
    return {
        "list_s": median([window.duration_s for window in windows]),
        "names_per_s": right / wall_s if right else _NOTHING_RIGHT,
        "wall_s": wall_s,
    }


def _memory(usage: Sequence[UsageSample], windows: Sequence[Window], listings: Sequence[Operation]) -> float | str:
    """By how much memory grew in the first listing, over its names: a later one finds the memory of the first."""
    if not windows or not listings:
        return NO_WINDOW
    first = windows[0]
    names = sum(listing.samples for listing in listings if listing.epoch == first.epoch)
    if names < FEWEST_NAMES_FOR_MEMORY:
        return f"memory a name is told from {FEWEST_NAMES_FOR_MEMORY:,} names on, {names:,} were listed"
    within = samples_within(sorted(usage, key=lambda sample: (sample.at_s, sample.cpu_s)), [first])
    if not within or within[0].at_s > first.started_s:
        return "no usage sample was taken before the first listing"
    return max(max(sample.rss_bytes for sample in within) - within[0].rss_bytes, 0) / names


def _requests(server: ServerCounts | None, served: Mapping[str, float | str], listings: int) -> dict[str, float | str]:
    if server is None or not listings:
        absent = served["server_requests"] if server is None else NO_WINDOW
        return dict.fromkeys(("requests_per_listing", "pages_per_listing"), absent)
    return {
        "requests_per_listing": server.requests / listings,
        "pages_per_listing": NOT_COUNTED if server.listings is None else server.listings / listings,
    }


def _over(value: float | str, names: float) -> float | str:
    if isinstance(value, str):
        return value
    return value / names if names else _NOTHING_RIGHT


FIGURES: Final = FigureSet(
    kinds=_FIGURES, values=_values, work=("listing",), traffic=partial(traffic_of_windows, "listing")
)
"""What a job of the listing scenario has figures of; the most names a second win."""
