"""Figures that every scenario has: what a job's processes used, and what the server counted meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from bucketbench.records import Operation, OperationKind, UsageSample
from bucketbench.statistics.figures import MIB, Better, FigureKind, ServerCounts
from bucketbench.statistics.traffic import NO_COUNTS, Traffic
from bucketbench.statistics.windows import NO_WINDOW, Window, by_rank, growth, measured_windows, samples_within

__all__ = [
    "NOT_COUNTED",
    "SERVER_FIGURES",
    "USAGE_FIGURES",
    "server_figures",
    "traffic_of_windows",
    "usage_figures",
]

USAGE_FIGURES: Final = {
    "cpu_s": FigureKind("s", Better.LOWER),
    "peak_rss_mib": FigureKind("MiB", Better.LOWER),
    "added_memory_mib": FigureKind("MiB", Better.LOWER),
    "network_received_mib": FigureKind("MiB"),
    "network_sent_mib": FigureKind("MiB"),
    "gpu_utilisation_percent": FigureKind("%", Better.HIGHER),
    "gpu_memory_mib": FigureKind("MiB"),
}

SERVER_FIGURES: Final = {
    "server_requests": FigureKind("requests"),
    "requests_in_flight": FigureKind("requests"),
    "server_bytes_out_mib": FigureKind("MiB"),
    "server_faults": FigureKind("requests"),
    "server_warnings": FigureKind("warnings"),
}

_NO_SERVER: Final = "the server's counters are known only for the testbed"
NOT_COUNTED: Final = "the version that recorded the job did not count them"
_NO_NETWORK: Final = "the host's network counters could not be read"
_NO_GPU: Final = "no GPU was found, or none that tells it"

_ADDED_UP: Final = ("cpu_s", "peak_rss_mib", "added_memory_mib")
"""The figures that are added up over the ranks; the others are the whole host's, as each rank reads them."""


def usage_figures(
    operations: Sequence[Operation], usage: Sequence[UsageSample], windows: Sequence[Window]
) -> dict[str, float | str]:
    """What was used within the windows, each a value in the unit of ``USAGE_FIGURES`` or the reason for having none.

    CPU time and memory are those of all ranks together; their memory is the sum of each one's highest.

    Args:
        operations: the job's records, those of the warm-up among them.
        usage: the job's usage samples in any order, with one of each rank at each edge of each window.
        windows: in order of time.
    """
    samples, done = by_rank(usage) or {0: []}, by_rank(operations)
    figures = [_of_rank(done.get(rank, []), own, windows) for rank, own in samples.items()]
    return figures[0] | {name: _sum([own[name] for own in figures]) for name in _ADDED_UP}


def _sum(values: Sequence[float | str]) -> float | str:
    total = 0.0
    for value in values:
        if isinstance(value, str):
            return value
        total += value
    return total


def _of_rank(
    operations: Sequence[Operation], usage: Sequence[UsageSample], windows: Sequence[Window]
) -> dict[str, float | str]:
    usage = sorted(usage, key=lambda sample: (sample.at_s, sample.cpu_s))
    within = samples_within(usage, windows)

    def grown(read: Callable[[UsageSample], float | None], absent: str, *, scale: float = 1) -> float | str:
        if not windows:
            return NO_WINDOW
        values = [read(sample) for sample in usage]
        if any(value is None for value in values):
            return absent
        try:
            return max(growth(usage, windows, lambda sample: read(sample) or 0.0), 0.0) / scale
        except LookupError as error:
            return str(error)

    gpu_percent = [s.gpu_utilisation_percent for s in within if s.gpu_utilisation_percent is not None]
    gpu_bytes = [s.gpu_memory_bytes for s in within if s.gpu_memory_bytes is not None]
    absent = "no usage sample was taken" if windows else NO_WINDOW
    return {
        "cpu_s": grown(lambda sample: sample.cpu_s, "the CPU time could not be read"),
        "peak_rss_mib": max(sample.rss_bytes for sample in within) / MIB if within else absent,
        "added_memory_mib": _added_memory_mib(operations, usage, within),
        "network_received_mib": grown(lambda sample: sample.network_received_bytes, _NO_NETWORK, scale=MIB),
        "network_sent_mib": grown(lambda sample: sample.network_sent_bytes, _NO_NETWORK, scale=MIB),
        # Sorted, because the sum of floats depends on their order and a figure must not.
        "gpu_utilisation_percent": sum(sorted(gpu_percent)) / len(gpu_percent) if gpu_percent else _NO_GPU,
        "gpu_memory_mib": max(gpu_bytes) / MIB if gpu_bytes else _NO_GPU,
    }


def _added_memory_mib(
    operations: Sequence[Operation], usage: Sequence[UsageSample], within: Sequence[UsageSample]
) -> float | str:
    """By how much memory exceeds, at most, that of a trainer which has torch but neither client nor workers yet.

    A fork server is another process that has torch. It belongs to the start method and not to the client: what memory
    grew by while it was started is taken off.
    """
    if not within:
        return "no usage sample was taken" if operations else NO_WINDOW
    bare = usage[0]
    if any(operation.started_s < bare.at_s for operation in operations):
        return "no usage sample was taken before the client was built"
    servers = [operation for operation in operations if operation.kind is OperationKind.FORK_SERVER]
    spans = [
        Window(epoch=one.epoch, started_s=one.started_s, ended_s=one.ended_s)
        for one in sorted(servers, key=lambda one: (one.started_s, one.ended_s))
    ]
    try:
        started_bytes = growth(usage, spans, lambda sample: sample.rss_bytes)
    except LookupError:
        return "no usage sample was taken when the fork server had started"
    return max(max(sample.rss_bytes for sample in within) - bare.rss_bytes - started_bytes, 0) / MIB


def server_figures(server: ServerCounts | None, windows: Sequence[Window]) -> dict[str, float | str]:
    """What the server counted, each a value in the unit of ``SERVER_FIGURES`` or the reason for having none."""
    if server is None:
        return dict.fromkeys(SERVER_FIGURES, _NO_SERVER)
    # Sorted, because the sum of floats depends on their order and a figure must not.
    wall_s = sum(sorted(window.duration_s for window in windows))
    in_flight: float | str = NO_WINDOW if wall_s <= 0 else NOT_COUNTED
    if wall_s > 0 and server.requests_s is not None:
        in_flight = server.requests_s / wall_s
    return {
        "server_requests": server.requests,
        "requests_in_flight": in_flight,
        "server_bytes_out_mib": server.bytes_out / MIB,
        "server_faults": NOT_COUNTED if server.faults is None else server.faults,
        "server_warnings": NOT_COUNTED if server.warnings is None else server.warnings,
    }


def traffic_of_windows(
    work: str, operations: Sequence[Operation], server: ServerCounts | None
) -> dict[str, Traffic] | str:
    """What the server was asked for, where all that was measured is work of one kind.

    Args:
        work: its name, such as ``epoch``.
        operations: the job's records.
        server: what the server counted in all measured windows together.
    """
    windows = measured_windows(operations)
    if server is None or server.requests_by_name is None:
        return NO_COUNTS
    if not windows:
        return NO_WINDOW
    return {
        work: Traffic(
            times=len(windows),
            requests=server.requests_by_name,
            received_bytes=server.bytes_out,
            sent_bytes=server.bytes_in or 0,
        )
    }
