"""Evidence of jobs that broke no rule, for the tests that plant a breach in it."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from bucketbench.records import Operation, OperationKind, Phase, UsageSample
from bucketbench.statistics import MIB, ServerCounts
from bucketbench.validity import Evidence

SERVER = ServerCounts(
    requests=40, bytes_out=200 * MIB, faults=0, warnings=0, listings=0, requests_s=3.0, bytes_in=0, asked_s=3.0,
    lost_s=0.0, processor_s=1.0, requests_by_name={"get_object": 40},
)  # fmt: skip


VERIFICATION = {
    "checked": 320, "mismatched": 0, "missing": 0, "duplicated": 0, "errors": 0, "notes": [], "checked_by_size": 280,
    "checked_in_warmup": 0,
}  # fmt: skip


def operation(kind: OperationKind, started_s: float, ended_s: float, **changes: Any) -> Operation:
    fields: dict[str, Any] = {"phase": Phase.MEASURE, "epoch": 0, "worker": 0} | changes
    return Operation(kind=kind, started_s=started_s, ended_s=ended_s, **fields)


def sample(at_s: float, **changes: Any) -> UsageSample:
    """A sample of a quiet machine of two processors. Job and testbed use half of one each, and the job reads 100 MiB/s
    off a device.
    """
    fields: dict[str, Any] = {
        "cpu_s": at_s / 2, "rss_bytes": 100 * MIB, "processes": 3, "wall_clock_s": 1.8e9 + at_s, "host_busy_s": at_s,
        "host_steal_s": 0.0, "host_passed_s": 2 * at_s, "storage_read_bytes": round(at_s * 100 * MIB),
        "network_received_bytes": round(at_s * 100 * MIB), "network_sent_bytes": 0, "host_interrupts_s": 0.0,
        "harness_cpu_s": at_s / 2, "others_cpu_s": {}, "others_are_all": True,
        "quota_periods": 0, "quota_throttled_periods": 0,
    }  # fmt: skip
    return UsageSample(at_s=at_s, **(fields | changes))


def evidence(**changes: Any) -> Evidence:
    """Two seconds in which 200 MiB arrive."""
    fields: dict[str, Any] = {
        "operations": [
            operation(OperationKind.EPOCH, 10.0, 12.0),
            *(
                operation(OperationKind.FETCH, 10 + place / 20, 10 + (place + 1) / 20, samples=8, content_bytes=5 * MIB)
                for place in range(40)
            ),
        ],
        "usage": [sample(at_s) for at_s in (9.0, 10.0, 11.0, 12.0, 13.0)],
        "server": SERVER,
        "memory_bytes": 8192 * MIB,
        "verification": VERIFICATION,
    }
    return Evidence(**(fields | changes))


def with_samples(found: Evidence, **changes: Any) -> Evidence:
    """The evidence with fields of its samples changed: each a function of the sample."""
    return replace(
        found,
        usage=[replace(one, **{name: change(one) for name, change in changes.items()}) for one in found.usage],
    )


def write_job(directory: Path, found: Evidence) -> None:
    """Leave in a directory what a measured process with that evidence would have."""
    for name, records in (("operations.jsonl", found.operations), ("usage.jsonl", found.usage)):
        (directory / name).write_text("".join(f"{json.dumps(record.to_json())}\n" for record in records))
    outcome = {
        "status": "ok", "reason": None, "server": None if found.server is None else asdict(found.server),
        "verification": found.verification,
        "details": {"style": "map", **found.details}, "versions": {"python": "3.11"},
    }  # fmt: skip
    (directory / "outcome.json").write_text(json.dumps(outcome))
