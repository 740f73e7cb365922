"""Reads the ``run_results.json`` of s3torchbenchmarking, the harness of Amazon's S3 connector for PyTorch.

Its jobs have a configuration and lists of metrics, and no figure of ours but a throughput and durations. What a metric
is called and what it is are two things there: the throughput of a data set's run without ``volume_mibs`` is samples
over seconds, and a distributed job has one of each rank.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from bucketbench.configuration.settings import flattened
from bucketbench.errors import ResultsError
from bucketbench.records import Figure
from bucketbench.results.files import SCHEMA_VERSION
from bucketbench.scenarios import find_scenario
from bucketbench.statistics.percentiles import median

__all__ = ["is_run", "run_results"]

_SCENARIOS: Final = {
    "dataset": "dataset",
    "pytorch_checkpointing": "pytorch_checkpointing",
    "lightning_checkpointing": "lightning_checkpointing",
    "dcp": "dcp_ddp",
    "dcp_ddp": "dcp_ddp",
    "dcp_fsdp": "dcp_fsdp",
}
_ABSENT: Final = "s3torchbenchmarking does not measure it, or does not say it"
# Of the host, where the run was on EC2.
_HOST: Final = {"instance_type": "instance_type", "region": "region", "image_id": "image_id", "architecture": "machine"}


def is_run(fields: Mapping[str, Any]) -> bool:
    """Whether the content of a ``run_results.json`` is one of that harness."""
    return "schema_version" not in fields and "job_results" in fields and "timestamp_utc" in fields


def run_results(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The content of a run's file as this package has it.

    Args:
        fields: the content of the file, for which ``is_run`` is true.

    Returns:
        A ``run_results.json`` of the current version, in which what the other harness does not tell is absent. Its
        jobs have the names of its configuration in their parameters.

    Raises:
        ResultsError: the scenario is not known, or a field is not what it should be.
    """
    try:
        scenario = _SCENARIOS[str(fields["scenario"])]
    except KeyError:
        known = ", ".join(_SCENARIOS)
        raise ResultsError(f"its scenario is {fields.get('scenario')!r}, and there are {known}") from None
    try:
        ended_s = float(fields["timestamp_utc"])
        took_s = float(fields.get("run_elapsed_time_s") or 0.0)
        jobs = [_job(job, scenario, fields, number=number) for number, job in enumerate(fields["job_results"])]
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError) as error:
        raise ResultsError(f"it is no whole result of s3torchbenchmarking: {type(error).__name__}: {error}") from error
    return {
        "schema_version": SCHEMA_VERSION,
        "scenario": scenario,
        "started_at": _time(ended_s - took_s),
        "ended_at": _time(ended_s),
        "interrupted": False,
        "host": _host(fields),
        "versions": _versions(fields),
        "jobs_planned": len(jobs),
        "jobs": jobs,
    }


def _job(job: Mapping[str, Any], scenario: str, run: Mapping[str, Any], *, number: int) -> dict[str, Any]:
    config = dict(job["config"])
    metrics = job["metrics"]
    failed = not isinstance(metrics, Mapping)
    figures = find_scenario(scenario).figures
    told = {} if failed else _values(metrics, scenario, ranks=int(config.get("world_size") or 1))
    client, group = _client(config)
    return {
        "schema_version": SCHEMA_VERSION,
        "scenario": scenario,
        "number": number,
        "client": client,
        "role": "reference" if client == "disk" else "contestant",
        "parameters": {name: value for name, value in flattened(config).items() if name != group},
        "repeat": 0,
        "disambiguator": run.get("disambiguator"),
        "status": "failed" if failed else "ok",
        "reason": f"it has no metrics: {metrics}" if failed else None,
        "figures": {
            name: Figure(unit=unit, value=told.get(name), reason=None if name in told else _ABSENT).to_json()
            for name, unit in figures.units.items()
        },
        "versions": _versions(run),
        "host": _host(run),
        "config": config,
    }


def _client(config: Mapping[str, Any]) -> tuple[str, str]:
    """Who was measured, and the key that says it: the kind of data set, or where checkpoints went."""
    loader, checkpoint = config.get("dataloader"), config.get("checkpoint")
    if isinstance(loader, Mapping) and "kind" in loader:
        return str(loader["kind"]), "dataloader.kind"
    if isinstance(checkpoint, Mapping) and "storage" in checkpoint:
        storage = str(checkpoint["storage"])
        return ("s3torchconnector" if storage == "s3" else storage), "checkpoint.storage"
    raise ValueError("neither dataloader.kind nor checkpoint.storage says what was measured")


def _values(metrics: Mapping[str, Any], scenario: str, *, ranks: int) -> dict[str, float]:
    """Our figures, as far as the metrics have them."""
    speeds = _numbers(metrics.get("throughput_mibs"))
    if scenario == "dataset":
        wall_s = sum(_numbers(metrics.get("training_duration_s", metrics.get("elapsed_time_s"))))
        name = "throughput_mibs" if "volume_mibs" in metrics else "samples_per_s"
        volume_mib = sum(_numbers(metrics.get("volume_mibs")))
        found = {name: _harmonic_mean(speeds), "wall_s": wall_s, "content_mib": volume_mib}
    else:
        durations_s = _numbers(metrics.get("save_times_s", metrics.get("corrected_save_durations_s")))
        # All ranks of a checkpoint, then all of the next one: it is as slow as the slowest.
        slowest_s = [max(part) for part in _parts(durations_s, ranks)]
        slowest = [min(part) for part in _parts(speeds, ranks)]
        save_s = median(slowest_s) if slowest_s else 0.0
        found = {"save_mibs": _harmonic_mean(slowest), "save_s": save_s, "checkpoints": float(len(slowest_s))}
    return {name: value for name, value in found.items() if value > 0}


def _numbers(value: Any) -> list[float]:
    """One number, or a list of them; none where it says nothing."""
    values = value if isinstance(value, Sequence) and not isinstance(value, str) else [] if value is None else [value]
    return [number for number in map(float, values) if math.isfinite(number)]


def _parts(values: Sequence[float], length: int) -> list[Sequence[float]]:
    return [values[start : start + length] for start in range(0, len(values), length)]


def _harmonic_mean(speeds: Sequence[float]) -> float:
    """The speed over all of several times the same work."""
    positive = [speed for speed in speeds if speed > 0]
    return len(positive) / sum(1 / speed for speed in positive) if positive else 0.0


def _versions(run: Mapping[str, Any]) -> dict[str, str]:
    told = {name: str(version).split()[0] for name, version in dict(run.get("versions") or {}).items()}
    renamed = {{"pytorch": "torch", "hydra": "hydra-core"}.get(name, name): version for name, version in told.items()}
    connector = run.get("s3torchconnector_version")
    return renamed | ({} if connector is None else {"s3torchconnector": str(connector)})


def _host(run: Mapping[str, Any]) -> dict[str, Any]:
    told = run.get("ec2_metadata")
    if not isinstance(told, Mapping):
        return {}
    return {"cloud": "ec2"} | {ours: told[theirs] for theirs, ours in _HOST.items() if theirs in told}


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
