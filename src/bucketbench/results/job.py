"""The results of one job: from what the measured process left, to ``job_results.json``."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from bucketbench.configuration.settings import JobSettings
from bucketbench.job import OPERATIONS_FILE, OUTCOME_FILE, USAGE_FILE
from bucketbench.records import Figure, Operation, UsageSample
from bucketbench.results.files import SCHEMA_VERSION
from bucketbench.scenarios import figures_of
from bucketbench.secrecy import redacted
from bucketbench.statistics import FigureSet, ServerCounts

__all__ = ["cache_state", "job_results", "read_outcome"]

_T = TypeVar("_T")


def read_outcome(directory: Path, *, otherwise: str) -> dict[str, Any]:
    """What the measured process concluded, or a failure where it left nothing that can be read.

    Args:
        directory: the job's directory.
        otherwise: the reason of the failure, when there is no outcome.
    """
    try:
        outcome: dict[str, Any] = json.loads((directory / OUTCOME_FILE).read_bytes())
    except (OSError, ValueError):
        return {"status": "failed", "reason": otherwise, "verification": None, "server": None, "details": {},
                "versions": {}}  # fmt: skip
    return outcome


def job_results(
    directory: Path,
    *,
    settings: JobSettings,
    outcome: Mapping[str, Any],
    started_at: str,
    host: Mapping[str, Any],
    commit: str | None,
    secrets: tuple[str, ...],
) -> dict[str, Any]:
    """The content of ``job_results.json``; every figure is derived from the raw records.

    Args:
        directory: with the raw records; those of a crashed job may be absent or end in the middle of a line.
        settings: what was asked for.
        outcome: what the measured process concluded.
        started_at: when the job began.
        host: the machine.
        commit: of this program's source.
        secrets: values that must not appear.
    """
    status = outcome["status"]
    reason = None if outcome["reason"] is None else redacted(str(outcome["reason"]), secrets)
    known = figures_of(settings.scenario)
    try:
        figures = _figures(directory, outcome["server"], known=known, reason=reason)
    except (ValueError, TypeError) as error:
        status, reason = "failed", f"the job's raw records are damaged: {error}"
        figures = known.unmeasured(reason)
    return {
        "schema_version": SCHEMA_VERSION,
        "scenario": settings.scenario,
        "client": settings.client.name,
        "role": settings.config["client"]["role"],
        "parameters": settings.parameters,
        "repeat": settings.repeat,
        "disambiguator": settings.config["disambiguator"],
        "status": status,
        "reason": reason,
        "started_at": started_at,
        "figures": {name: figure.to_json() for name, figure in figures.items()},
        "verification": outcome["verification"],
        "details": outcome["details"],
        "cache": cache_state(settings),
        "versions": outcome["versions"],
        "host": dict(host),
        "config": settings.config,
        "commit": commit,
    }


def cache_state(settings: JobSettings) -> dict[str, str]:
    """Whether the data were cold or warm, and how that is known."""
    if settings.uses_testbed:
        return {
            "state": "warm",
            "how": "the testbed serves files from the page cache of this host, which a data set of up to half of its "
            "memory is read into before the first job; the network model stands for latency and bandwidth, and no "
            "storage device is measured",
        }
    return {
        "state": "unknown",
        "how": "the service's own caches are beyond the harness; repeats are interleaved between the clients, so that "
        "each meets the same",
    }


def _figures(
    directory: Path, server: Mapping[str, int] | None, *, known: FigureSet, reason: str | None
) -> dict[str, Figure]:
    operations = _records(directory / OPERATIONS_FILE, Operation.from_json)
    if not operations:
        return known.unmeasured(f"the job failed before it recorded anything: {reason}")
    usage = _records(directory / USAGE_FILE, UsageSample.from_json)
    return known.of_job(operations, usage, server=None if server is None else ServerCounts(**server))


def _records(path: Path, parse: Callable[[dict[str, Any]], _T]) -> list[_T]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    records = []
    for number, line in enumerate(lines, start=1):
        try:
            records.append(parse(json.loads(line)))
        except ValueError:
            if number < len(lines):
                raise
            # The last line of a process that was killed while it wrote.
    return records
