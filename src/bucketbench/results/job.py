"""The results of one job: ``job_results.json``, made from what the measured processes left."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from bucketbench.configuration.settings import JobSettings
from bucketbench.errors import ResultsError
from bucketbench.records import Figure
from bucketbench.results.files import JOB_RESULTS_FILE, SCHEMA_VERSION, write_json
from bucketbench.results.raw import read_outcome, read_raw
from bucketbench.scenarios import find_scenario
from bucketbench.secrecy import redacted
from bucketbench.statistics import FigureSet, Role, ServerCounts

__all__ = ["JobResult", "cache_state", "job_result"]

_DIGEST_CHARACTERS = 16


class JobResult(msgspec.Struct, frozen=True, kw_only=True):
    """One job's results, as ``job_results.json`` has them; ``schema/job_results.schema.json`` explains each field.

    What a later version added has a default here, so that older files are read too.
    """

    schema_version: int
    scenario: str
    client: str
    parameters: dict[str, Any]
    repeat: int
    status: Literal["ok", "failed"]
    figures: dict[str, Figure]
    number: int = 0
    role: Role | None = None
    client_options: dict[str, Any] = {}
    configuration: dict[str, str] = {}
    disambiguator: str | None = None
    reason: str | None = None
    started_at: str | None = None
    verification: dict[str, Any] | None = None
    details: dict[str, Any] = {}
    cache: dict[str, str] = {}
    versions: dict[str, str | None] = {}
    host: dict[str, Any] = {}
    config: dict[str, Any] = {}
    commit: str | None = None

    @property
    def ok(self) -> bool:
        """Whether the job did what it was to do, and everything arrived as it should."""
        return self.status == "ok"

    def to_json(self) -> dict[str, Any]:
        """The result as plain JSON values."""
        fields: dict[str, Any] = msgspec.to_builtins(self)
        return fields

    def write(self, directory: Path) -> None:
        """Write ``job_results.json``.

        Raises:
            ResultsError: it could not be written.
        """
        write_json(directory / JOB_RESULTS_FILE, self.to_json())


def job_result(
    directory: Path,
    *,
    settings: JobSettings,
    number: int,
    reason: str,
    started_at: str,
    host: Mapping[str, Any],
    commit: str | None,
    objects_left: int,
    secrets: tuple[str, ...],
) -> JobResult:
    """The results of a job; every figure is derived from the raw records.

    Args:
        directory: with the raw records; those of a crashed job may be absent or end in the middle of a line.
        settings: what was asked for.
        number: the job's place in its run, from 0.
        reason: why the measured process ended, should it have left no outcome.
        started_at: when the job began.
        host: the machine.
        commit: of this program's source.
        objects_left: how many objects more the testbed's bucket has than before the job.
        secrets: values that must not appear.
    """
    outcome = read_outcome(directory, otherwise=reason)
    status = outcome["status"]
    failure = None if outcome["reason"] is None else redacted(str(outcome["reason"]), secrets)
    known = find_scenario(settings.scenario).figures
    try:
        figures = _figures(directory, outcome, known=known, failure=failure)
    except (ResultsError, ValueError, TypeError) as error:
        status, failure = "failed", f"the job's raw records are damaged: {error}"
        figures = known.unmeasured(failure)
    parameters, client_options = settings.parameters, settings.client_options
    return JobResult(
        schema_version=SCHEMA_VERSION,
        scenario=settings.scenario,
        number=number,
        client=settings.client.name,
        role=Role(settings.config["client"]["role"]),
        client_options=client_options,
        parameters=parameters,
        configuration={"experiment": _digest(parameters), "client": _digest(client_options)},
        repeat=settings.repeat,
        disambiguator=settings.config["disambiguator"],
        status=status,
        reason=failure,
        started_at=started_at,
        figures=figures,
        verification=outcome["verification"],
        details=outcome["details"] | ({"objects_left": str(objects_left)} if objects_left else {}),
        cache=cache_state(settings),
        versions=outcome["versions"],
        host=dict(host),
        config=dict(settings.config),
        commit=commit,
    )


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
    directory: Path, outcome: Mapping[str, Any], *, known: FigureSet, failure: str | None
) -> dict[str, Figure]:
    operations, usage = read_raw(directory, ended=outcome["status"] == "ok")
    if not operations:
        return known.unmeasured(f"the job failed before it recorded anything: {failure}")
    server = outcome["server"]
    return known.of_job(operations, usage, server=None if server is None else ServerCounts(**server))


def _digest(values: Mapping[str, Any]) -> str:
    """What tells two configurations apart, whatever their files are called."""
    canonical = json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=True, default=str)
    return hashlib.sha256(canonical.encode()).hexdigest()[:_DIGEST_CHARACTERS]
