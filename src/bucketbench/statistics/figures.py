"""The figures of one job, derived from its raw records. What each means is defined in docs/figures.md."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bucketbench.records import Figure, Operation, OperationKind, Phase, UsageSample
from bucketbench.statistics.percentiles import P99_MINIMUM_OPERATIONS, median, percentile
from bucketbench.statistics.windows import Window, growth, measured_windows, samples_within

__all__ = ["FIGURE_UNITS", "GIB", "MIB", "ServerCounts", "job_figures", "unmeasured_figures"]

MIB = 1024 * 1024
GIB = 1024 * MIB

FIGURE_UNITS = {
    "throughput_mibs": "MiB/s",
    "samples_per_s": "samples/s",
    "latency_p50_s": "s",
    "latency_p95_s": "s",
    "latency_p99_s": "s",
    "latency_max_s": "s",
    "time_to_first_batch_s": "s",
    "index_s": "s",
    "decode_s": "s",
    "wait_s": "s",
    "cpu_s": "s",
    "cpu_s_per_gib": "s/GiB",
    "peak_rss_mib": "MiB",
    "samples": "samples",
    "content_mib": "MiB",
    "errors": "samples",
    "wall_s": "s",
    "network_received_mib": "MiB",
    "network_sent_mib": "MiB",
    "server_requests": "requests",
    "server_bytes_out_mib": "MiB",
    "read_amplification": "ratio",
    "server_faults": "requests",
    "server_warnings": "warnings",
    "gpu_utilisation_percent": "%",
    "gpu_memory_mib": "MiB",
}
"""Name and unit of every figure a job has; a job that could not measure one has the reason in its place."""

_SERVER_FIGURES = (
    "server_requests",
    "server_bytes_out_mib",
    "read_amplification",
    "server_faults",
    "server_warnings",
)
_NO_EPOCH = "no measured epoch was completed"
_NO_FETCH = "no measured fetch was recorded"
_NOTHING_ARRIVED = "no sample arrived whole"
_NO_SERVER = "the server's counters are known only for target=local"
_NOT_COUNTED = "the version that recorded the job did not count them"
_NO_NETWORK = "the host's network counters could not be read"
_NO_GPU = "no GPU was found, or none that tells it"


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerCounts:
    """What the server saw during the measured epochs: the difference of its counters at their edges.

    Args:
        requests: requests of every kind, failed ones included.
        bytes_out: bytes of response bodies.
        faults: requests that a fault struck, by the configuration's own rules; None in records of a version that did
            not count them.
        warnings: how often it said that the host does not keep the network model; None likewise.
    """

    requests: int
    bytes_out: int
    faults: int | None = None
    warnings: int | None = None


def job_figures(
    operations: Sequence[Operation], usage: Sequence[UsageSample], *, server: ServerCounts | None = None
) -> dict[str, Figure]:
    """Every figure of one job, by the names of ``FIGURE_UNITS``.

    Bytes and samples are those of the measured FETCH records; EPOCH records give the wall time and nothing else, so
    totals written into them are not counted twice. Errors are those of FETCH and DECODE records, for the same reason.
    The order of either argument does not matter.

    Args:
        operations: the job's records, of warm-up and measurement.
        usage: the job's usage samples, with one at each edge of each measured epoch.
        server: the server's counts, None where they are not known.

    Returns:
        A figure for every name, each with a value or with the reason for having none; never zero for what was not
        measured.
    """
    measured = [operation for operation in operations if operation.phase is Phase.MEASURE]
    windows = measured_windows(measured)
    fetches = [operation for operation in measured if operation.kind is OperationKind.FETCH]
    samples = sum(operation.samples for operation in fetches)
    content_bytes = sum(operation.content_bytes for operation in fetches)
    values: dict[str, float | str] = {
        **_volume(fetches, measured, samples, content_bytes),
        **_speed(windows, samples, content_bytes),
        **_latency(fetches),
        **_stages(operations, measured, windows),
        **_usage(sorted(usage, key=lambda sample: (sample.at_s, sample.cpu_s)), windows, content_bytes),
        **_server(server, content_bytes),
    }
    return {name: _figure(unit, values[name]) for name, unit in FIGURE_UNITS.items()}


def unmeasured_figures(reason: str) -> dict[str, Figure]:
    """Every figure without a value, for a job that left no records: one that crashed, was killed or never started.

    Args:
        reason: why nothing could be measured.
    """
    return {name: Figure(unit=unit, reason=reason) for name, unit in FIGURE_UNITS.items()}


def _figure(unit: str, value: float | str) -> Figure:
    return Figure(unit=unit, reason=value) if isinstance(value, str) else Figure(unit=unit, value=float(value))


def _volume(
    fetches: Sequence[Operation], measured: Sequence[Operation], samples: int, content_bytes: int
) -> dict[str, float | str]:
    if not fetches:
        return dict.fromkeys(("samples", "content_mib", "errors"), _NO_FETCH)
    decodes = (operation for operation in measured if operation.kind is OperationKind.DECODE)
    errors = sum(operation.errors for operation in (*fetches, *decodes))
    return {"samples": samples, "content_mib": content_bytes / MIB, "errors": errors}


def _speed(windows: Sequence[Window], samples: int, content_bytes: int) -> dict[str, float | str]:
    wall_s = sum(window.duration_s for window in windows)
    if not windows:
        return dict.fromkeys(("wall_s", "throughput_mibs", "samples_per_s"), _NO_EPOCH)
    if wall_s <= 0:
        reason = "the measured epochs took no time that the clock could tell"
        return dict.fromkeys(("wall_s", "throughput_mibs", "samples_per_s"), reason)
    if samples == 0:
        return {"wall_s": wall_s, "throughput_mibs": _NOTHING_ARRIVED, "samples_per_s": _NOTHING_ARRIVED}
    return {"wall_s": wall_s, "throughput_mibs": content_bytes / MIB / wall_s, "samples_per_s": samples / wall_s}


def _latency(fetches: Sequence[Operation]) -> dict[str, float | str]:
    # A batch with a failed sample is no example of how long a batch takes: a refusal is fast and a timeout slow.
    durations_s = [operation.duration_s for operation in fetches if operation.samples > 0 and operation.errors == 0]
    names = ("latency_p50_s", "latency_p95_s", "latency_p99_s", "latency_max_s")
    if not durations_s:
        return dict.fromkeys(names, "no batch arrived whole" if fetches else _NO_FETCH)
    count = len(durations_s)
    return {
        "latency_p50_s": median(durations_s),
        "latency_p95_s": percentile(durations_s, 95),
        "latency_p99_s": percentile(durations_s, 99)
        if count >= P99_MINIMUM_OPERATIONS
        else f"a 99th percentile needs {P99_MINIMUM_OPERATIONS} operations, {count} were measured",
        "latency_max_s": max(durations_s),
    }


def _stages(
    operations: Sequence[Operation], measured: Sequence[Operation], windows: Sequence[Window]
) -> dict[str, float | str]:
    # Indexing happens once, before the warm-up, so its phase does not matter.
    index = [operation for operation in operations if operation.kind is OperationKind.INDEX]
    decode = [operation for operation in measured if operation.kind is OperationKind.DECODE]
    waits = [operation for operation in measured if operation.kind is OperationKind.WAIT]
    return {
        "index_s": _index_s(index),
        "decode_s": _total_s(decode) if decode else "nothing was decoded: the model takes bytes, or nothing reached it",
        "wait_s": _total_s(waits) if waits else "no wait for a batch was recorded",
        "time_to_first_batch_s": _time_to_first_batch_s(waits, windows),
    }


def _total_s(operations: Sequence[Operation]) -> float:
    # Sorted, because the sum of floats depends on their order and a figure must not.
    return sum(sorted(operation.duration_s for operation in operations))


def _index_s(operations: Sequence[Operation]) -> float | str:
    if not operations:
        return "no indexing was recorded"
    failed = [operation for operation in operations if operation.error is not None]
    if failed:
        return "indexing failed"
    ranks = {operation.rank for operation in operations}
    return max(_total_s([operation for operation in operations if operation.rank == rank]) for rank in ranks)


def _time_to_first_batch_s(waits: Sequence[Operation], windows: Sequence[Window]) -> float | str:
    first_s = []
    for window in windows:
        whole = [wait for wait in waits if wait.epoch == window.epoch and wait.error is None]
        arrived_s = [wait.ended_s for wait in whole if wait.ended_s >= window.started_s]
        if arrived_s:
            first_s.append(min(arrived_s) - window.started_s)
    if not first_s:
        return "no wait for a first batch was recorded" if windows else _NO_EPOCH
    return median(first_s)


def _usage(usage: Sequence[UsageSample], windows: Sequence[Window], content_bytes: int) -> dict[str, float | str]:
    within = samples_within(usage, windows)

    def grown(read: Callable[[UsageSample], float | None], absent: str) -> float | str:
        if not windows:
            return _NO_EPOCH
        values = [read(sample) for sample in usage]
        if any(value is None for value in values):
            return absent
        try:
            return max(growth(usage, windows, lambda sample: read(sample) or 0.0), 0.0)
        except LookupError as error:
            return str(error)

    def scaled(value: float | str, scale: float) -> float | str:
        return value if isinstance(value, str) else value / scale

    cpu_s = grown(lambda sample: sample.cpu_s, "the CPU time could not be read")
    gpu_percent = [s.gpu_utilisation_percent for s in within if s.gpu_utilisation_percent is not None]
    gpu_bytes = [s.gpu_memory_bytes for s in within if s.gpu_memory_bytes is not None]
    absent = "no usage sample was taken" if windows else _NO_EPOCH
    return {
        "cpu_s": cpu_s,
        "cpu_s_per_gib": scaled(cpu_s, content_bytes / GIB) if content_bytes else _NOTHING_ARRIVED,
        "peak_rss_mib": max(sample.rss_bytes for sample in within) / MIB if within else absent,
        "network_received_mib": scaled(grown(lambda s: s.network_received_bytes, _NO_NETWORK), MIB),
        "network_sent_mib": scaled(grown(lambda s: s.network_sent_bytes, _NO_NETWORK), MIB),
        # Sorted for the same reason as durations are.
        "gpu_utilisation_percent": sum(sorted(gpu_percent)) / len(gpu_percent) if gpu_percent else _NO_GPU,
        "gpu_memory_mib": max(gpu_bytes) / MIB if gpu_bytes else _NO_GPU,
    }


def _server(server: ServerCounts | None, content_bytes: int) -> dict[str, float | str]:
    if server is None:
        return dict.fromkeys(_SERVER_FIGURES, _NO_SERVER)
    return {
        "server_requests": server.requests,
        "server_bytes_out_mib": server.bytes_out / MIB,
        "read_amplification": server.bytes_out / content_bytes if content_bytes else _NOTHING_ARRIVED,
        "server_faults": _NOT_COUNTED if server.faults is None else server.faults,
        "server_warnings": _NOT_COUNTED if server.warnings is None else server.warnings,
    }
