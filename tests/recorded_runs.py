"""Runs with raw records beside their results, for the tests of what is drawn from them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from report_results import PARAMETERS, job, write_run

from bucketbench.records import Operation, OperationKind, Phase, UsageSample

__all__ = ["SPEEDS", "recorded_run", "sweep_jobs"]

SPEEDS = {"quick": 96.0, "steady": 60.0, "raw": 120.0}
_MIB = 1 << 20


def sweep_jobs(workers: tuple[int, ...] = (1, 2), repeats: int = 6) -> list[dict[str, Any]]:
    """Jobs of two contestants and a ceiling for each number of workers, none of which scales perfectly."""
    return [
        job(
            client,
            repeat,
            speed * count**0.8 * (1 + len(client) * repeat % 7 / 100),
            schema_version=2,
            number=0,
            parameters={**PARAMETERS, "dataloader.num_workers": count},
            client_options={"_target_": f"clients.{client}", "options.part_bytes": 8 * _MIB},
            details={"start_method": "fork", "style": "map"},
            versions={"python": "3.11.7", client: "1.2.3"},
            cache={"state": "warm", "how": "the testbed serves files from the page cache of this host"},
        )
        for repeat in range(repeats)
        for count in workers
        for client, speed in SPEEDS.items()
    ]


def recorded_run(directory: Path, jobs: list[dict[str, Any]]) -> Path:
    """Write a run, with 48 fetches in three seconds and four usage samples a second for each job that succeeded."""
    run = write_run(directory, [{**results, "number": number} for number, results in enumerate(jobs)])
    for number, results in enumerate(jobs):
        if results["status"] == "ok":
            _write_records(run / str(number), speed=results["figures"]["throughput_mibs"]["value"])
    return run


def _write_records(directory: Path, *, speed: float) -> None:
    measured = {"phase": Phase.MEASURE, "epoch": 0}
    operations: list[Operation] = [
        Operation(
            kind=OperationKind.FETCH,
            worker=number % 2,
            started_s=10 + number / 16,
            ended_s=10 + (number + 1 + number % 3) / 16,
            samples=8,
            content_bytes=int(speed * _MIB / 16),
            **measured,  # type: ignore[arg-type]  # a mixed dict
        )
        for number in range(48)
    ]
    operations.append(Operation(kind=OperationKind.EPOCH, worker=-1, started_s=10.0, ended_s=13.2, **measured))  # type: ignore[arg-type]  # likewise
    usage = [
        UsageSample(at_s=9.9 + number / 4, cpu_s=number / 8, rss_bytes=(200 + number) * _MIB, processes=3)
        for number in range(15)
    ]
    for name, records in (("operations.jsonl", operations), ("usage.jsonl", usage)):
        (directory / name).write_text("".join(f"{json.dumps(record.to_json())}\n" for record in records))
