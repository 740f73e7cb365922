"""Result files of runs that never were, for the tests of the report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bucketbench.scenarios.dataset.figures import FIGURES

PARAMETERS = {"target": "local", "network": "regional", "dataloader.num_workers": 2}


def job(client: str, repeat: int, throughput_mibs: float | None, **changes: Any) -> dict[str, Any]:
    """A job's results; without a throughput it has failed."""
    measured = {
        "throughput_mibs": throughput_mibs,
        "samples_per_s": throughput_mibs and throughput_mibs * 10,
        "latency_p50_s": 0.0123,
        "latency_p95_s": 0.25,
        "cpu_s_per_gib": 1.5,
        "peak_rss_mib": 512.0,
        "added_memory_mib": 48.0,
        "requests_in_flight": 3.25,
        "errors": 0,
    }
    if throughput_mibs is None:
        measured = {"errors": 3}
    figures = {
        name: {
            "unit": unit,
            "value": measured.get(name),
            "reason": None if name in measured else "left out by the test",
        }
        for name, unit in FIGURES.units.items()
    }
    return {
        "schema_version": 1,
        "scenario": "dataset",
        "client": client,
        "parameters": PARAMETERS,
        "repeat": repeat,
        "disambiguator": None,
        "status": "failed" if throughput_mibs is None else "ok",
        "reason": "the measured process was killed by SIGKILL" if throughput_mibs is None else None,
        "started_at": f"2026-11-02T10:00:{repeat:02}Z",
        "figures": figures,
        "verification": {"checked": 10, "mismatched": 0, "missing": 0, "duplicated": 0},
        "details": {"start_method": "fork"},
        "versions": {},
        "host": {"cpu_model": "Abacus", "cpu_cores": 2, "memory_mib": 8192},
        "config": {
            "client": {"name": client, "role": {"raw": "ceiling", "disk": "reference"}.get(client, "contestant")}
        },
        "commit": "0123456789abcdef-dirty",
        **changes,
    }


def write_run(
    directory: Path, jobs: list[dict[str, Any]], *, whole: bool = True, started_at: str = "2026-11-02T10:00:00Z"
) -> Path:
    """Write a run's files; not ``whole``, it has those of its jobs only, as an interrupted sweep."""
    directory.mkdir(parents=True, exist_ok=True)
    for number, results in enumerate(jobs):
        (directory / str(number)).mkdir()
        (directory / str(number) / "job_results.json").write_text(json.dumps(results))
    if whole:
        run = {
            "schema_version": 1,
            "scenario": "dataset",
            "run_id": directory.name,
            "started_at": started_at,
            "ended_at": "2026-11-02T10:01:00Z",
            "host": {"cpu_model": "Abacus", "cpu_cores": 2, "memory_mib": 8192},
            "versions": {},
            "commit": "0123456789abcdef-dirty",
            "command": ["client=fast,slow"],
            "interrupted": False,
            "jobs_planned": len(jobs),
            "jobs": jobs,
        }
        (directory / "run_results.json").write_text(json.dumps(run))
    return directory


def small_run() -> list[dict[str, Any]]:
    """Six repeats of two contestants and the ceiling, the first contestant about five times as fast as the second."""
    drifts = {"slow": (0, 1, 2, 2, 4, 3), "fast": (0, 1, 2, 2, 3, 4), "raw": (0, 1, 2, 2, 3, 4)}
    speeds = {"slow": 20.0, "fast": 100.0, "raw": 200.0}
    return [
        job(client, repeat, speed * (1 + drifts[client][repeat] / 100))
        for repeat in range(6)
        for client, speed in speeds.items()
    ]
