"""Figures that every scenario has: what a job's processes used, and what the server counted meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from bucketbench.records import UsageSample
from bucketbench.statistics.figures import MIB, ServerCounts
from bucketbench.statistics.windows import NO_WINDOW, Window, growth, samples_within

__all__ = ["NOT_COUNTED", "SERVER_UNITS", "USAGE_UNITS", "server_figures", "usage_figures"]

USAGE_UNITS: Final = {
    "cpu_s": "s",
    "peak_rss_mib": "MiB",
    "network_received_mib": "MiB",
    "network_sent_mib": "MiB",
    "gpu_utilisation_percent": "%",
    "gpu_memory_mib": "MiB",
}

SERVER_UNITS: Final = {
    "server_requests": "requests",
    "server_bytes_out_mib": "MiB",
    "server_faults": "requests",
    "server_warnings": "warnings",
}

_NO_SERVER: Final = "the server's counters are known only for the testbed"
NOT_COUNTED: Final = "the version that recorded the job did not count them"
_NO_NETWORK: Final = "the host's network counters could not be read"
_NO_GPU: Final = "no GPU was found, or none that tells it"


def usage_figures(usage: Sequence[UsageSample], windows: Sequence[Window]) -> dict[str, float | str]:
    """What was used within the windows, each a value in the unit of ``USAGE_UNITS`` or the reason for having none.

    Args:
        usage: the job's usage samples in any order, with one at each edge of each window.
        windows: in order of time.
    """
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
        "network_received_mib": grown(lambda sample: sample.network_received_bytes, _NO_NETWORK, scale=MIB),
        "network_sent_mib": grown(lambda sample: sample.network_sent_bytes, _NO_NETWORK, scale=MIB),
        # Sorted, because the sum of floats depends on their order and a figure must not.
        "gpu_utilisation_percent": sum(sorted(gpu_percent)) / len(gpu_percent) if gpu_percent else _NO_GPU,
        "gpu_memory_mib": max(gpu_bytes) / MIB if gpu_bytes else _NO_GPU,
    }


def server_figures(server: ServerCounts | None) -> dict[str, float | str]:
    """What the server counted, each a value in the unit of ``SERVER_UNITS`` or the reason for having none."""
    if server is None:
        return dict.fromkeys(SERVER_UNITS, _NO_SERVER)
    return {
        "server_requests": server.requests,
        "server_bytes_out_mib": server.bytes_out / MIB,
        "server_faults": NOT_COUNTED if server.faults is None else server.faults,
        "server_warnings": NOT_COUNTED if server.warnings is None else server.warnings,
    }
