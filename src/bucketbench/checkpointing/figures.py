"""The figures of a job that saves and loads checkpoints, derived from its raw records. docs/figures.md defines them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from bucketbench.records import Operation, OperationKind, Phase, UsageSample
from bucketbench.statistics.figures import GIB, MIB, Better, FigureKind, FigureSet, ServerCounts
from bucketbench.statistics.percentiles import median
from bucketbench.statistics.traffic import NO_COUNTS, Traffic
from bucketbench.statistics.usage import NOT_COUNTED, SERVER_FIGURES, USAGE_FIGURES, server_figures, usage_figures
from bucketbench.statistics.windows import NO_WINDOW, Window, by_rank, samples_within, windows_over

__all__ = ["FIGURES"]

_FIGURES: Final = {
    "save_mibs": FigureKind("MiB/s", Better.HIGHER, contest="save throughput"),
    "load_mibs": FigureKind("MiB/s", Better.HIGHER, contest="load throughput"),
    "save_s": FigureKind("s", Better.LOWER),
    "blocked_s": FigureKind("s", Better.LOWER),
    "copy_s": FigureKind("s", Better.LOWER),
    "stalled_s": FigureKind("s", Better.LOWER),
    "load_s": FigureKind("s", Better.LOWER),
    "save_cpu_s_per_gib": FigureKind("s/GiB", Better.LOWER),
    "load_cpu_s_per_gib": FigureKind("s/GiB", Better.LOWER),
    "save_memory_mib": FigureKind("MiB", Better.LOWER),
    "load_memory_mib": FigureKind("MiB", Better.LOWER),
    "requests_per_save": FigureKind("requests", Better.LOWER),
    "requests_per_load": FigureKind("requests", Better.LOWER),
    "write_amplification": FigureKind("ratio", Better.LOWER),
    "read_amplification": FigureKind("ratio", Better.LOWER),
    "checkpoints": FigureKind("checkpoints"),
    "state_mib": FigureKind("MiB"),
    "errors": FigureKind("tensors", Better.LOWER),
    "wall_s": FigureKind("s", Better.LOWER),
    **USAGE_FIGURES,
    **SERVER_FIGURES,
    "server_bytes_in_mib": FigureKind("MiB"),
}

_NOTHING_RIGHT: Final = "no checkpoint was loaded as it was saved"
_NO_PART: Final = {
    "save": "saving was no part of what the job measured",
    "load": "loading was no part of what the job measured",
}
_NO_SERVER: Final = "the server's counters are known only for the testbed"
_NO_TIME: Final = "it took no time that the clock could tell"


def _values(
    operations: Sequence[Operation], usage: Sequence[UsageSample], server: ServerCounts | None
) -> dict[str, float | str]:
    """Every figure or the reason for having none. A checkpoint is a SAVE and a LOAD record, or one of them."""
    measured = [operation for operation in operations if operation.phase is Phase.MEASURE]
    saves = [operation for operation in measured if operation.kind is OperationKind.SAVE]
    loads = [operation for operation in measured if operation.kind is OperationKind.LOAD]
    windows = sorted(
        [*windows_over(saves), *windows_over(loads)], key=lambda window: (window.started_s, window.ended_s)
    )
    done = loads or saves
    right_bytes = _right_bytes(done)
    return {
        **_of_kind("save", saves, loads, operations, usage),
        **_of_kind("load", loads, saves, operations, usage),
        "blocked_s": _background_s(OperationKind.STAGE, measured, saves),
        "copy_s": _background_s(OperationKind.COPY, measured, saves),
        "stalled_s": _stalled_s(measured, saves),
        "checkpoints": len(right_bytes) if done else NO_WINDOW,
        "state_mib": max(right_bytes) / MIB if right_bytes else _NOTHING_RIGHT if done else NO_WINDOW,
        "errors": sum(one.errors for one in [*saves, *loads]) if done else NO_WINDOW,
        # Sorted, because the sum of floats depends on their order and a figure must not.
        "wall_s": sum(sorted(window.duration_s for window in windows)) if windows else NO_WINDOW,
        **usage_figures(operations, usage, windows),
        **server_figures(server, windows),
        "server_bytes_in_mib": _bytes_in_mib(server),
    }


def _right_bytes(done: Sequence[Operation]) -> list[int]:
    """Bytes of each checkpoint that every rank has loaded as it was saved."""
    epochs = {one.epoch for one in done} - {one.epoch for one in done if not one.samples}
    return [sum(one.content_bytes for one in done if one.epoch == epoch) for epoch in sorted(epochs)]


def _of_kind(
    name: str,
    done: Sequence[Operation],
    others: Sequence[Operation],
    operations: Sequence[Operation],
    usage: Sequence[UsageSample],
) -> dict[str, float | str]:
    """The figures of all saves, or of all loads; the others are those of the other kind."""
    amplification = {"save": "write_amplification", "load": "read_amplification"}[name]
    if not done:
        names = (f"{name}_mibs", f"{name}_s", f"{name}_cpu_s_per_gib", f"{name}_memory_mib", f"requests_per_{name}")
        return dict.fromkeys((*names, amplification), _NO_PART[name] if others else NO_WINDOW)
    windows = windows_over(done)
    content_bytes = sum(one.content_bytes for one in done)
    wall_s = sum(sorted(window.duration_s for window in windows))
    cpu_s = usage_figures(operations, usage, windows)["cpu_s"]
    speed: float | str = _NOTHING_RIGHT
    cpu_per_gib = speed
    if content_bytes:
        speed = content_bytes / MIB / wall_s if wall_s > 0 else _NO_TIME
        cpu_per_gib = cpu_s if isinstance(cpu_s, str) else cpu_s / (content_bytes / GIB)
    return {
        f"{name}_mibs": speed,
        f"{name}_s": median([window.duration_s for window in windows]),
        f"{name}_cpu_s_per_gib": cpu_per_gib,
        f"{name}_memory_mib": _memory_mib(done, windows, operations, usage),
        f"requests_per_{name}": _requests(done),
        amplification: _amplification(done),
    }


def _amplification(done: Sequence[Operation]) -> float | str:
    """Bytes of bodies on the wire over those of the checkpoints, each counted once however many ranks have it."""
    counted = {one.epoch: one.wire_bytes for one in done if one.wire_bytes is not None}
    if not counted:
        return _NO_SERVER
    content_bytes = sum(one.content_bytes for one in done if one.epoch in counted)
    return sum(counted.values()) / content_bytes if content_bytes else _NOTHING_RIGHT


def _stalled_s(measured: Sequence[Operation], saves: Sequence[Operation]) -> float | str:
    """How long a save kept the training steps after it from beginning, and what came after them from following."""
    if not saves:
        return _NO_PART["save"] if measured else NO_WINDOW
    trained = {(one.epoch, one.rank): one for one in measured if one.kind is OperationKind.TRAIN}
    slowest_s: dict[int, float] = {}
    for save in saves:
        train = trained.get((save.epoch, save.rank))
        if train is None:
            return "no training steps were taken after the saves (steps_per_save)"
        stalled_s = train.started_s - save.started_s + max(save.ended_s - train.ended_s, 0.0)
        slowest_s[save.epoch] = max(slowest_s.get(save.epoch, 0.0), stalled_s)
    return median(list(slowest_s.values()))


def _background_s(kind: OperationKind, measured: Sequence[Operation], saves: Sequence[Operation]) -> float | str:
    """The median of what is measured of saves in the background alone."""
    if not saves:
        return _NO_PART["save"] if measured else NO_WINDOW
    slowest_s: dict[int, float] = {}
    for one in measured:
        if one.kind is kind:
            slowest_s[one.epoch] = max(slowest_s.get(one.epoch, 0.0), one.duration_s)
    if not slowest_s:
        return "the client saves in the foreground: the training is blocked until the checkpoint is durable"
    return median(list(slowest_s.values()))


def _memory_mib(
    done: Sequence[Operation], windows: Sequence[Window], operations: Sequence[Operation], usage: Sequence[UsageSample]
) -> float | str:
    """By how much the memory of all ranks exceeds, at most, that with the state and before the client was built."""
    every, samples = by_rank(operations), by_rank(usage)
    of_ranks = [
        _memory_of_rank_mib(own, windows, every[rank], samples.get(rank, [])) for rank, own in by_rank(done).items()
    ]
    absent = next((found for found in of_ranks if isinstance(found, str)), None)
    return absent if absent is not None else sum(found for found in of_ranks if not isinstance(found, str))


def _memory_of_rank_mib(
    done: Sequence[Operation], windows: Sequence[Window], operations: Sequence[Operation], usage: Sequence[UsageSample]
) -> float | str:
    """The kernel's record knows the measured process and misses no moment; the samples know its children as well."""
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
    if not counted:
        return _NO_SERVER
    return sum(counted) / len(counted)


def _bytes_in_mib(server: ServerCounts | None) -> float | str:
    if server is None:
        return _NO_SERVER
    return NOT_COUNTED if server.bytes_in is None else server.bytes_in / MIB


def _traffic(operations: Sequence[Operation], server: ServerCounts | None) -> dict[str, Traffic] | str:
    """What saves asked of the service, and what loads did."""
    del server  # its counts are of both together
    found = {}
    for work, kind in (("save", OperationKind.SAVE), ("load", OperationKind.LOAD)):
        # Of several ranks the first has the counts, of all.
        counted = [
            one
            for one in operations
            if one.kind is kind and one.phase is Phase.MEASURE and one.requests_by_name is not None
        ]
        if counted:
            requests: Counter[str] = Counter()
            for one in counted:
                requests.update(one.requests_by_name or {})
            wire_bytes = sum(one.wire_bytes or 0 for one in counted)
            found[work] = Traffic(
                times=len(counted),
                requests=dict(requests),
                received_bytes=wire_bytes if kind is OperationKind.LOAD else 0,
                sent_bytes=wire_bytes if kind is OperationKind.SAVE else 0,
            )
    return found or NO_COUNTS


FIGURES: Final = FigureSet(kinds=_FIGURES, values=_values, work=("save", "load"), traffic=_traffic)
"""What a job that saves and loads checkpoints has figures of; the save decides the order, and both have a winner."""
