"""Result files of a run that never was, small and odd."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bucketbench.results import SCHEMA_VERSION
from bucketbench.sinks.document import JobDocument

__all__ = ["job", "records_of", "run_results", "write_run"]

STARTED_AT = "2026-11-29T09:05:20.112+00:00"


def job(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        "scenario": "dataset",
        "number": number,
        "client": "boto3",
        "role": "contestant",
        "client_options": {"_target_": "a.B", "options.part": 8},
        "configuration": {"experiment": "0" * 16, "client": "1" * 16},
        "parameters": {"target": "local", "dataloader.num_workers": 2, "network.first_byte_s": 0.02, "tls": False},
        "repeat": number,
        "disambiguator": None,
        "status": "ok",
        "reason": None,
        "started_at": f"2026-11-29T09:05:{21 + number}.000+00:00",
        "ended_at": f"2026-11-29T09:05:{22 + number}.000+00:00",
        "figures": {
            "throughput_mibs": {"unit": "MiB/s", "value": 110.74561437959771, "reason": None},
            "latency_p99_s": {"unit": "s", "value": None, "reason": "36 were measured"},
            "samples": {"unit": "samples", "value": 1152.0, "reason": None},
        },
        "traffic": {"epoch": {"times": 2, "requests": {"get_object": 384}, "received_bytes": 7, "sent_bytes": 0}},
        "traffic_reason": None,
        "validity": {
            "state": "doubtful",
            "unchecked": {"steal": "not told"},
            "marks": [{"rule": "network_model", "state": "doubtful", "reason": "1 warning"}],
        },
        "verification": {
            "checked": 24,
            "checked_by_size": 21,
            "checked_in_warmup": 8,
            "mismatched": 0,
            "missing": 0,
            "duplicated": 0,
            "errors": 0,
            "notes": ["é ☃"],
        },
        "details": {"start_method": "fork", "style": "map"},
        "cache": {"state": "warm", "how": "it was read"},
        "versions": {"python": "3.11.7", "tokenizers": "0.23.3"},
        "host": {
            "system": "Linux",
            "kernel": "6",
            "machine": "x86_64",
            "cpu_model": "A",
            "cpu_cores": 2,
            "memory_mib": 8,
            "cloud": "ec2",
            "instance_type": "g5.2xlarge",
            "region": "eu-north-1",
            "zone": "eu-north-1b",
            "image_id": "ami-01",
            "cloud_reason": None,
        },
        "config": {"scenario": "dataset", "target": {"bucket": "b", "endpoint": None}, "faults": {"rules": []}},
        "commit": None,
        **changes,
    }


def run_results(*jobs: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        "scenario": "dataset",
        "run_id": "dataset/2026-11-29_09-05-18",
        "started_at": STARTED_AT,
        "ended_at": "2026-11-29T09:05:35.151+00:00",
        "label": "night",
        "resumed_at": ["2026-11-29T09:05:30.000+00:00"],
        "interrupted": False,
        "command": ["client=boto3"],
        "host": job(0)["host"],
        "versions": {"python": "3.11.7"},
        "commit": "abc",
        "jobs_planned": len(jobs),
        "jobs": list(jobs),
        **changes,
    }


def write_run(directory: Path, results: dict[str, Any]) -> Path:
    """Write a run's file and those of its jobs."""
    directory.mkdir(parents=True)
    (directory / "run_results.json").write_text(json.dumps(results))
    for place, found in enumerate(results["jobs"]):
        folder = directory / str(place)
        folder.mkdir()
        (folder / "job_results.json").write_text(json.dumps(found))
        (folder / "operations.jsonl").write_text(f'{{"kind": "fetch", "of": {place}}}\n')
    return directory


def records_of(job: JobDocument) -> dict[str, str]:
    """A job's raw records, whole."""
    return {name: "".join(pieces) for name, pieces in job.records()}
