"""Short ways of writing raw records, for the tests of the statistics."""

from __future__ import annotations

from typing import Any

from bucketbench.records import Figure, Operation, OperationKind, Phase, UsageSample
from bucketbench.scenarios.dataset.figures import FIGURES
from bucketbench.statistics import GIB, MIB, MeasuredJob


def operation(kind: OperationKind, started_s: float, ended_s: float, **changes: Any) -> Operation:
    fields: dict[str, Any] = {"phase": Phase.MEASURE, "epoch": 0, "worker": 0} | changes
    return Operation(kind=kind, started_s=started_s, ended_s=ended_s, **fields)


def usage(at_s: float, cpu_s: float, rss_mib: int = 100, **changes: Any) -> UsageSample:
    return UsageSample(at_s=at_s, cpu_s=cpu_s, rss_bytes=rss_mib * MIB, processes=3, **changes)


def two_epochs() -> tuple[list[Operation], list[UsageSample]]:
    """Two epochs of 2 s in which 1 GiB each arrives in two fetches, after a warm-up, with a second between them."""
    fetched = {"samples": 10, "content_bytes": GIB // 2}
    operations = [
        operation(OperationKind.INDEX, 0.0, 0.5, phase=Phase.WARMUP, epoch=-1),
        operation(OperationKind.EPOCH, 1.0, 9.0, phase=Phase.WARMUP, epoch=-1),
        operation(OperationKind.FETCH, 1.0, 9.0, phase=Phase.WARMUP, epoch=-1, **fetched),
    ]
    for epoch, start_s in ((0, 10.0), (1, 13.0)):
        operations += [
            operation(OperationKind.EPOCH, start_s, start_s + 2, epoch=epoch, samples=20, content_bytes=GIB),
            operation(OperationKind.WAIT, start_s, start_s + 0.4 + epoch / 10, epoch=epoch),
            operation(OperationKind.FETCH, start_s, start_s + 0.3, epoch=epoch, **fetched),
            operation(OperationKind.DECODE, start_s + 0.3, start_s + 0.4, epoch=epoch, samples=10),
            operation(OperationKind.FETCH, start_s, start_s + 0.5, epoch=epoch, worker=1, **fetched),
        ]
    samples = [
        usage(0.0, 0.0, rss_mib=60, network_received_bytes=0, network_sent_bytes=0),
        usage(5.0, 2.0, rss_mib=9000, network_received_bytes=0, network_sent_bytes=0),
        usage(10.0, 5.0, network_received_bytes=100 * MIB, network_sent_bytes=MIB),
        usage(11.0, 6.5, rss_mib=300, network_received_bytes=700 * MIB, network_sent_bytes=2 * MIB),
        usage(12.0, 8.0, network_received_bytes=1300 * MIB, network_sent_bytes=3 * MIB),
        usage(13.0, 20.0, network_received_bytes=2000 * MIB, network_sent_bytes=50 * MIB),
        usage(15.0, 22.0, network_received_bytes=3200 * MIB, network_sent_bytes=52 * MIB),
        usage(16.0, 50.0, rss_mib=9000, network_received_bytes=9000 * MIB, network_sent_bytes=90 * MIB),
    ]
    return operations, samples


def measured_job(client: str, repeat: int, throughput_mibs: float | None, **changes: Any) -> MeasuredJob:
    """A job with a throughput; without one it has failed."""
    figures = {name: Figure(unit=unit, reason="left out by the test") for name, unit in FIGURES.units.items()}
    if throughput_mibs is not None:
        figures["throughput_mibs"] = Figure(unit="MiB/s", value=throughput_mibs)
    fields: dict[str, Any] = {
        "scenario": "dataset",
        "parameters": {"network": "regional"},
        "failure": "killed" if throughput_mibs is None else None,
    }
    return MeasuredJob(client=client, repeat=repeat, figures=figures, **(fields | changes))
