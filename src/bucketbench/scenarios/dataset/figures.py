"""The figures of a job of the dataset scenario, derived from its raw records. docs/figures.md defines them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from bucketbench.records import Operation, OperationKind, Phase, UsageSample
from bucketbench.statistics.figures import GIB, MIB, Better, FigureKind, FigureSet, ServerCounts
from bucketbench.statistics.percentiles import median, percentile_figure
from bucketbench.statistics.usage import (
    SERVER_FIGURES,
    USAGE_FIGURES,
    server_figures,
    traffic_of_windows,
    usage_figures,
)
from bucketbench.statistics.utilisation import accelerator_utilisation_percent
from bucketbench.statistics.windows import NO_WINDOW, Window, by_epoch, by_rank, measured_windows

__all__ = ["FIGURES"]

_FIGURES: Final = {
    "throughput_mibs": FigureKind("MiB/s", Better.HIGHER, contest="throughput"),
    "samples_per_s": FigureKind("samples/s", Better.HIGHER),
    "latency_p50_s": FigureKind("s", Better.LOWER),
    "latency_p95_s": FigureKind("s", Better.LOWER),
    "latency_p99_s": FigureKind("s", Better.LOWER),
    "latency_max_s": FigureKind("s", Better.LOWER),
    "next_p50_s": FigureKind("s", Better.LOWER),
    "next_p95_s": FigureKind("s", Better.LOWER),
    "next_p99_s": FigureKind("s", Better.LOWER),
    "next_max_s": FigureKind("s", Better.LOWER),
    "time_to_first_batch_s": FigureKind("s", Better.LOWER),
    "index_s": FigureKind("s", Better.LOWER),
    "decode_s": FigureKind("s", Better.LOWER),
    "wait_s": FigureKind("s", Better.LOWER),
    "accelerator_utilisation_percent": FigureKind("%", Better.HIGHER),
    "cpu_s": FigureKind("s", Better.LOWER),
    "cpu_s_per_gib": FigureKind("s/GiB", Better.LOWER),
    "samples": FigureKind("samples"),
    "content_mib": FigureKind("MiB"),
    "errors": FigureKind("samples", Better.LOWER),
    "wall_s": FigureKind("s", Better.LOWER),
    "read_amplification": FigureKind("ratio", Better.LOWER),
    **USAGE_FIGURES,
    **SERVER_FIGURES,
}

_NO_FETCH: Final = "no measured fetch was recorded"
_OF_A_STREAM: Final = "a stream is taken from by next(), which is timed apart (next_p50_s): it may have been read ahead"
_OF_A_MAP: Final = "a map data set is asked for each batch, which is timed apart (latency_p50_s): nothing is next in it"
_NOTHING_ARRIVED: Final = "no sample arrived whole"


def _values(
    operations: Sequence[Operation], usage: Sequence[UsageSample], server: ServerCounts | None
) -> dict[str, float | str]:
    """Every figure or the reason for having none.

    Bytes and samples are those of the measured FETCH and NEXT records; EPOCH records give the wall time and nothing
    else, so totals written into them are not counted twice. Errors are those of these and of DECODE records, for the
    same reason.
    """
    measured = [operation for operation in operations if operation.phase is Phase.MEASURE]
    windows = measured_windows(measured)
    fetches = [operation for operation in measured if operation.kind is OperationKind.FETCH]
    taken = [operation for operation in measured if operation.kind is OperationKind.NEXT]
    arrivals = [*fetches, *taken]
    samples = sum(operation.samples for operation in arrivals)
    content_bytes = sum(operation.content_bytes for operation in arrivals)
    used, served = usage_figures(operations, usage, windows), server_figures(server, windows)
    return {
        **_volume(arrivals, measured, samples, content_bytes),
        **_speed(windows, samples, content_bytes),
        **_durations("latency", fetches, absent=_OF_A_STREAM if taken else _NO_FETCH),
        **_durations("next", taken, absent=_OF_A_MAP if fetches else _NO_FETCH),
        **_stages(operations, measured, windows),
        "accelerator_utilisation_percent": accelerator_utilisation_percent(measured, windows),
        **used,
        **served,
        "cpu_s_per_gib": _over(used["cpu_s"], content_bytes / GIB),
        "read_amplification": _over(served["server_bytes_out_mib"], content_bytes / MIB),
    }


def _over(value: float | str, content: float) -> float | str:
    """A figure over the content that arrived, in the unit of its denominator."""
    if isinstance(value, str):
        return value
    return value / content if content else _NOTHING_ARRIVED


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
        return dict.fromkeys(("wall_s", "throughput_mibs", "samples_per_s"), NO_WINDOW)
    if wall_s <= 0:
        reason = "the measured epochs took no time that the clock could tell"
        return dict.fromkeys(("wall_s", "throughput_mibs", "samples_per_s"), reason)
    if samples == 0:
        return {"wall_s": wall_s, "throughput_mibs": _NOTHING_ARRIVED, "samples_per_s": _NOTHING_ARRIVED}
    return {"wall_s": wall_s, "throughput_mibs": content_bytes / MIB / wall_s, "samples_per_s": samples / wall_s}


def _durations(name: str, operations: Sequence[Operation], *, absent: str) -> dict[str, float | str]:
    """How long operations of one kind took; ``absent`` says why where there are none."""
    names = [f"{name}_{what}_s" for what in ("p50", "p95", "p99", "max")]
    # A batch with a failed sample is no example of how long a batch takes: a refusal is fast and a timeout slow.
    durations_s = [one.duration_s for one in operations if one.samples > 0 and one.errors == 0]
    if not durations_s:
        return dict.fromkeys(names, "no batch arrived whole" if operations else absent)
    found = [*(percentile_figure(durations_s, percent) for percent in (50, 95, 99)), max(durations_s)]
    return dict(zip(names, found, strict=True))


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
    return max(_total_s(own) for own in by_rank(operations).values())


def _time_to_first_batch_s(waits: Sequence[Operation], windows: Sequence[Window]) -> float | str:
    first_s = []
    whole = by_epoch(wait for wait in waits if wait.error is None)
    for window in windows:
        arrived_s: dict[int, float] = {}
        for wait in whole.get(window.epoch, ()):
            if wait.ended_s >= window.started_s:
                arrived_s[wait.rank] = min(wait.ended_s, arrived_s.get(wait.rank, wait.ended_s))
        if arrived_s:
            first_s.append(max(arrived_s.values()) - window.started_s)
    if not first_s:
        return "no wait for a first batch was recorded" if windows else NO_WINDOW
    return median(first_s)


FIGURES: Final = FigureSet(
    kinds=_FIGURES, values=_values, work=("epoch",), traffic=partial(traffic_of_windows, "epoch")
)
"""What a job of the dataset scenario has figures of; the highest throughput wins."""
