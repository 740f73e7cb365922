"""The figures of a job that saves and loads checkpoints, derived from its raw records. docs/figures.md defines them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bucketbench.records import Operation, OperationKind, Phase, UsageSample
from bucketbench.statistics.figures import GIB, MIB, Better, FigureKind, FigureSet, ServerCounts
from bucketbench.statistics.percentiles import median
from bucketbench.statistics.usage import NOT_COUNTED, SERVER_FIGURES, USAGE_FIGURES, server_figures, usage_figures
from bucketbench.statistics.windows import NO_WINDOW, Window, samples_within

__all__ = ["FIGURES"]

_FIGURES: Final = {
    "save_mibs": FigureKind("MiB/s", Better.HIGHER, contest="save throughput"),
    "load_mibs": FigureKind("MiB/s", Better.HIGHER, contest="load throughput"),
    "save_s": FigureKind("s", Better.LOWER),
    "blocked_s": FigureKind("s", Better.LOWER),
    "copy_s": FigureKind("s", Better.LOWER),
    "load_s": FigureKind("s", Better.LOWER),
    "save_cpu_s_per_gib": FigureKind("s/GiB", Better.LOWER),
    "load_cpu_s_per_gib": FigureKind("s/GiB", Better.LOWER),
    "save_memory_mib": FigureKind("MiB", Better.LOWER),
    "load_memory_mib": FigureKind("MiB", Better.LOWER),
    "requests_per_save": FigureKind("requests", Better.LOWER),
    "requests_per_load": FigureKind("requests", Better.LOWER),
    "checkpoints": FigureKind("checkpoints"),
    "state_mib": FigureKind("MiB"),
    "errors": FigureKind("tensors", Better.LOWER),
    "wall_s": FigureKind("s", Better.LOWER),
    **USAGE_FIGURES,
    **SERVER_FIGURES,
    "server_bytes_in_mib": FigureKind("MiB"),
}

_NOTHING_RIGHT: Final = "no checkpoint was loaded as it was saved"
_NO_TIME: Final = "it took no time that the clock could tell"


def _values(
    operations: Sequence[Operation], usage: Sequence[UsageSample], server: ServerCounts | None
) -> dict[str, float | str]:
    """Every figure or the reason for having none. Each measured checkpoint is one SAVE and one LOAD record."""
    measured = [operation for operation in operations if operation.phase is Phase.MEASURE]
    saves = [operation for operation in measured if operation.kind is OperationKind.SAVE]
    loads = [operation for operation in measured if operation.kind is OperationKind.LOAD]
    windows = _windows([*saves, *loads])
    right = [load for load in loads if load.samples]
    return {
        **_of_kind("save", saves, operations, usage),
        **_of_kind("load", loads, operations, usage),
        "blocked_s": _background_s(OperationKind.STAGE, measured, saves),
        "copy_s": _background_s(OperationKind.COPY, measured, saves),
        "checkpoints": len(right) if loads else NO_WINDOW,
        "state_mib": max(load.content_bytes for load in right) / MIB if right else _absent(loads),
        "errors": sum(load.errors for load in loads) if loads else NO_WINDOW,
        # Sorted, because the sum of floats depends on their order and a figure must not.
        "wall_s": sum(sorted(window.duration_s for window in windows)) if windows else NO_WINDOW,
        **usage_figures(operations, usage, windows),
        **server_figures(server, windows),
        "server_bytes_in_mib": _bytes_in_mib(server),
    }


def _windows(operations: Sequence[Operation]) -> list[Window]:
    found = [Window(epoch=one.epoch, started_s=one.started_s, ended_s=one.ended_s) for one in operations]
    return sorted(found, key=lambda window: (window.started_s, window.ended_s))


def _of_kind(
    name: str, done: Sequence[Operation], operations: Sequence[Operation], usage: Sequence[UsageSample]
) -> dict[str, float | str]:
    """The figures of all saves, or of all loads."""
    windows = _windows(done)
    content_bytes = sum(one.content_bytes for one in done)
    wall_s = sum(sorted(window.duration_s for window in windows))
    cpu_s = usage_figures(operations, usage, windows)["cpu_s"]
    speed: float | str = _absent(done)
    cpu_per_gib = speed
    if content_bytes:
        speed = content_bytes / MIB / wall_s if wall_s > 0 else _NO_TIME
        cpu_per_gib = cpu_s if isinstance(cpu_s, str) else cpu_s / (content_bytes / GIB)
    return {
        f"{name}_mibs": speed,
        f"{name}_s": median([one.duration_s for one in done]) if done else NO_WINDOW,
        f"{name}_cpu_s_per_gib": cpu_per_gib,
        f"{name}_memory_mib": _memory_mib(done, windows, operations, usage),
        f"requests_per_{name}": _requests(done),
    }


def _absent(done: Sequence[Operation]) -> str:
    return _NOTHING_RIGHT if done else NO_WINDOW


def _background_s(kind: OperationKind, measured: Sequence[Operation], saves: Sequence[Operation]) -> float | str:
    """The median of what is measured of saves in the background alone."""
    if not saves:
        return NO_WINDOW
    found = [operation.duration_s for operation in measured if operation.kind is kind]
    if not found:
        return "the client saves in the foreground: the training is blocked until the checkpoint is durable"
    return median(found)


def _memory_mib(
    done: Sequence[Operation], windows: Sequence[Window], operations: Sequence[Operation], usage: Sequence[UsageSample]
) -> float | str:
    """By how much memory exceeds, at most, that with the state and before the client was built.

    The kernel's record knows the measured process and misses no moment; the samples know its children as well.
    """
    if not done:
        return NO_WINDOW
    recorded = [one.added_memory_bytes for one in done if one.added_memory_bytes is not None]
    built_s = min(operation.started_s for operation in operations)
    ordered = sorted(usage, key=lambda sample: (sample.at_s, sample.cpu_s))
    before = [sample for sample in ordered if sample.at_s <= built_s]
    within = samples_within(ordered, windows)
    sampled = [max(sample.rss_bytes for sample in within) - before[-1].rss_bytes] if before and within else []
    if not recorded and not sampled:
        return "no usage sample was taken before the client was built"
    return max(*recorded, *sampled, 0) / MIB


def _requests(done: Sequence[Operation]) -> float | str:
    counted = [one.requests for one in done if one.requests is not None]
    if not done:
        return NO_WINDOW
    if not counted:
        return "the server's counters are known only for the testbed"
    return sum(counted) / len(counted)


def _bytes_in_mib(server: ServerCounts | None) -> float | str:
    if server is None:
        return "the server's counters are known only for the testbed"
    return NOT_COUNTED if server.bytes_in is None else server.bytes_in / MIB


FIGURES: Final = FigureSet(kinds=_FIGURES, values=_values)
"""What a job that saves and loads checkpoints has figures of; the save decides the order, and both have a winner."""
