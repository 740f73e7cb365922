"""The results of one job: ``job_results.json``, made from what the measured processes left."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from bucketbench.configuration.settings import JobSettings
from bucketbench.errors import ResultsError
from bucketbench.records import Figure
from bucketbench.results.files import JOB_RESULTS_FILE, SCHEMA_VERSION, write_json
from bucketbench.results.raw import RawRecords, read_outcome, read_raw
from bucketbench.results.record import now
from bucketbench.scenarios import find_scenario
from bucketbench.secrecy import home_directories, without_home, without_secrets
from bucketbench.statistics import FigureSet, Role, ServerCounts, Traffic
from bucketbench.validity import Evidence, Validity, judge, without_outside

__all__ = ["INTERRUPTED", "JobResult", "cache_state", "digest", "job_result", "traffic_fields", "validity_of"]

INTERRUPTED: Final = "interrupted"
"""The reason of a job that was under way when its sweep was ended: it says nothing about the client."""

_DIGEST_CHARACTERS: Final = 16


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
    traffic: dict[str, Traffic] = {}
    traffic_reason: str | None = None
    number: int = 0
    role: Role | None = None
    client_options: dict[str, Any] = {}
    configuration: dict[str, str] = {}
    disambiguator: str | None = None
    reason: str | None = None
    started_at: str | None = None
    ended_at: str | None = None
    verification: dict[str, Any] | None = None
    details: dict[str, Any] = {}
    validity: Validity | None = None
    cache: dict[str, str] = {}
    versions: dict[str, str | None] = {}
    host: dict[str, Any] = {}
    config: dict[str, Any] = {}
    commit: str | None = None

    @property
    def ok(self) -> bool:
        """Whether the job did what it was to do, and everything arrived as it should."""
        return self.status == "ok"

    @property
    def interrupted(self) -> bool:
        """Whether it was ended by whoever ended the sweep."""
        return self.status == "failed" and self.reason == INTERRUPTED

    @property
    def took_s(self) -> float | None:
        """Seconds from the job's beginning to its results; None where they do not tell it."""
        if self.started_at is None or self.ended_at is None:
            return None
        try:
            return (datetime.fromisoformat(self.ended_at) - datetime.fromisoformat(self.started_at)).total_seconds()
        except (ValueError, TypeError):  # no time, or only one of them with a zone
            return None

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
    failure = None if outcome["reason"] is None else _without_private(str(outcome["reason"]), secrets)
    known = find_scenario(settings.scenario).figures
    memory_mib, validity = host.get("memory_mib"), None
    try:
        records = read_raw(directory, ended=status == "ok")
        figures, traffic = _derived(records, outcome, known=known, failure=failure)
        if status == "ok":
            validity = validity_of(
                records,
                server=_server_counts(outcome),
                details=outcome["details"],
                verification=outcome["verification"],
                nodes=settings.config["nodes"],
                memory_mib=memory_mib,
            )
    except (ResultsError, ValueError, TypeError) as error:
        status, failure = "failed", _without_private(f"the job's raw records are damaged: {error}", secrets)
        figures, traffic = known.unmeasured(failure), failure
    told = {
        "parameters": settings.parameters,
        "client_options": settings.client_options,
        "config": dict(settings.config),
        "details": outcome["details"] | ({"objects_left": str(objects_left)} if objects_left else {}),
        "verification": outcome["verification"],
        "disambiguator": settings.config["disambiguator"],
    }
    told = _without_private(told, secrets)
    return JobResult(
        schema_version=SCHEMA_VERSION,
        scenario=settings.scenario,
        number=number,
        client=settings.client.name,
        role=Role(settings.config["client"]["role"]),
        client_options=told["client_options"],
        parameters=told["parameters"],
        configuration={"experiment": digest(told["parameters"]), "client": digest(told["client_options"])},
        repeat=settings.repeat,
        disambiguator=told["disambiguator"],
        status=status,
        reason=failure,
        started_at=started_at,
        ended_at=now(),
        figures=figures,
        **traffic_fields(traffic),
        verification=told["verification"],
        details=told["details"],
        validity=validity,
        cache=cache_state(settings),
        versions=outcome["versions"],
        host=dict(host),
        config=told["config"],
        commit=commit,
    )


def _without_private(content: Any, secrets: tuple[str, ...]) -> Any:
    """A JSON value without credentials, and without the name of the user's home directory."""
    return without_home(without_secrets(content, secrets), home_directories())


def cache_state(settings: JobSettings) -> dict[str, str]:
    """Whether the data were cold or warm, and how that is known."""
    if settings.config.get("clear_kernel_cache"):
        return {
            "state": "cold",
            "how": "the kernel's cache of files was dropped before each measured epoch or load; that what clients of "
            "files read then came from a device is checked by the kernel's own count (rule page_cache)",
        }
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


def traffic_fields(found: Mapping[str, Traffic] | str) -> dict[str, Any]:
    """The fields of a result that tell what its work asked of the service, or why that is not known."""
    if isinstance(found, str):
        return {"traffic": {}, "traffic_reason": found}
    return {"traffic": dict(found), "traffic_reason": None}


def validity_of(
    records: RawRecords,
    *,
    server: ServerCounts | None,
    details: Mapping[str, Any],
    verification: Mapping[str, Any] | None,
    nodes: int,
    memory_mib: int | None,
) -> Validity:
    """Judge a job that succeeded by what it left.

    Args:
        records: its operations and usage samples.
        server: what the server counted; None where it tells nothing.
        details: how it was measured.
        verification: what was compared.
        nodes: machines that it ran on.
        memory_mib: of the machine, where it is known.
    """
    operations, usage = records
    return judge(
        Evidence(
            operations=operations,
            usage=usage,
            server=server,
            details={name: str(value) for name, value in details.items()},
            verification=verification,
            nodes=nodes,
            memory_bytes=None if memory_mib is None else memory_mib << 20,
        )
    )


def _derived(
    records: RawRecords, outcome: Mapping[str, Any], *, known: FigureSet, failure: str | None
) -> tuple[dict[str, Figure], Mapping[str, Traffic] | str]:
    operations, usage = records
    if not operations:
        reason = f"the job failed before it recorded anything: {failure}"
        return known.unmeasured(reason), reason
    server = _server_counts(outcome)
    figures = without_outside(known.of_job(operations, usage, server=server), outcome["details"])
    return figures, known.traffic(operations, server)


def _server_counts(outcome: Mapping[str, Any]) -> ServerCounts | None:
    server = outcome["server"]
    return None if server is None else ServerCounts(**server)


def digest(values: Mapping[str, Any]) -> str:
    """What tells two configurations apart, whatever their files are called: 16 hexadecimal digits."""
    canonical = json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=True, default=str)
    return hashlib.sha256(canonical.encode()).hexdigest()[:_DIGEST_CHARACTERS]
