"""A run as its result files tell it, also where the sweep was interrupted."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from bucketbench.errors import ResultsError
from bucketbench.records import Figure
from bucketbench.results.files import JOB_RESULTS_FILE, RUN_RESULTS_FILE, SCHEMA_VERSION
from bucketbench.statistics import MeasuredJob, Role

__all__ = ["Run", "by_scenario", "job_directories", "load_run", "newest_run", "read_job"]

_T = TypeVar("_T")
_JOB_MARKS = (JOB_RESULTS_FILE, "job.json", ".hydra")


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """The jobs of one sweep.

    Args:
        directory: where the files lie.
        scenario: the scenario of its jobs; of the first where they are of several, see ``by_scenario``.
        jobs: the jobs whose results were read, failed ones among them.
        started_at: ISO 8601, None where the sweep was interrupted before it was written.
        ended_at: likewise.
        commit: of the repository that ran it, where known.
        command: the overrides that it was started with, where known.
        host: what is known of the machine.
        notes: what a reader must know to judge the run: that it was interrupted, and which jobs are missing.
    """

    directory: Path
    scenario: str
    jobs: tuple[MeasuredJob, ...]
    started_at: str | None = None
    ended_at: str | None = None
    commit: str | None = None
    command: tuple[str, ...] = ()
    host: Mapping[str, Any]
    notes: tuple[str, ...] = ()


def load_run(path: Path) -> Run:
    """Read a run.

    Args:
        path: its directory or its ``run_results.json``. Without that file the ``job_results.json`` files below the
            directory are read, as an interrupted sweep leaves them, and ``notes`` tells so.

    Raises:
        ResultsError: nothing is there, or a file is damaged, or of a newer schema; the message names it.
    """
    if path.is_dir():
        file = path / RUN_RESULTS_FILE
        return _whole_run(file) if file.exists() else _interrupted_run(path)
    if path.exists():
        return _whole_run(path)
    raise ResultsError(f"there is no run at {path}: expected a run's directory or its {RUN_RESULTS_FILE}")


def by_scenario(run: Run) -> list[Run]:
    """The run in parts, each with the jobs of one scenario, in the order in which the scenarios ran.

    A sweep has one scenario. A directory may hold the jobs of several, put together by hand.
    """
    scenarios = dict.fromkeys(job.scenario for job in run.jobs)
    return [
        replace(run, scenario=scenario, jobs=tuple(job for job in run.jobs if job.scenario == scenario))
        for scenario in scenarios
    ]


def newest_run(multirun: Path) -> Path:
    """The directory of the newest run of any scenario, by the time stamp that is its name.

    Args:
        multirun: the directory of all runs, ``<scenario>/<time stamp>`` below it.

    Raises:
        ResultsError: where it has no run.
    """
    runs = [directory for directory in multirun.glob("*/*") if directory.is_dir() and _is_run(directory)]
    if not runs:
        raise ResultsError(
            f"there is no run in {multirun.absolute()}: run ./utils/run_dataset_benchmarks.sh first, name a run's "
            "directory, or say with --multirun where the runs are"
        )
    # Two sweeps may have started in the same second, with the same name in different scenarios.
    return max(runs, key=lambda directory: (directory.name, directory.stat().st_mtime_ns))


def job_directories(directory: Path) -> list[Path]:
    """The directories of a run's jobs in the order of their numbers, also of jobs without results."""
    jobs = [child for child in directory.iterdir() if any((child / mark).exists() for mark in _JOB_MARKS)]
    return sorted(jobs, key=lambda job: (not job.name.isdecimal(), int(job.name) if job.name.isdecimal() else 0))


def read_job(file: Path) -> MeasuredJob:
    """Read the ``job_results.json`` of one job.

    Raises:
        ResultsError: it cannot be read, is damaged, or of a newer schema; the message names it.
    """
    return _job(_read_object(file), str(file))


def _is_run(directory: Path) -> bool:
    return (directory / RUN_RESULTS_FILE).exists() or any(directory.glob(f"*/{JOB_RESULTS_FILE}"))


def _whole_run(file: Path) -> Run:
    fields = _read_object(file)
    jobs = _field(fields, "jobs", list, file)
    if not jobs:
        raise ResultsError(f"{file} has no job: the sweep ended before its first job did, so there is nothing to show")
    return Run(
        directory=file.parent,
        scenario=_field(fields, "scenario", str, file),
        jobs=tuple(_job(job, f"{file}, job {number}") for number, job in enumerate(jobs)),
        started_at=_optional(fields, "started_at", str, file),
        ended_at=_optional(fields, "ended_at", str, file),
        commit=_commit(fields),
        command=tuple(str(override) for override in _optional(fields, "command", list, file) or ()),
        host=_optional(fields, "host", dict, file) or {},
        notes=_incomplete(fields, len(jobs), file),
    )


def _incomplete(fields: Mapping[str, Any], jobs: int, file: Path) -> tuple[str, ...]:
    planned = _optional(fields, "jobs_planned", int, file)
    count = f"the results of {jobs} of {planned} jobs are there" if planned is not None else "jobs may be missing"
    if _optional(fields, "interrupted", bool, file):
        return (f"the sweep was interrupted: {count}",)
    if fields.get("ended_at") is None:
        return (f"the sweep was killed, or still runs: {count}",)
    if planned is not None and planned != jobs:
        return (count,)
    return ()


def _interrupted_run(directory: Path) -> Run:
    notes = [f"{RUN_RESULTS_FILE} is missing: the sweep was interrupted, or still runs"]
    jobs: list[MeasuredJob] = []
    described: list[Mapping[str, Any]] = []
    for child in job_directories(directory):
        file = child / JOB_RESULTS_FILE
        if not file.exists():
            notes.append(f"job {child.name} left no {JOB_RESULTS_FILE} and is not in the table")
            continue
        try:
            fields = _read_object(file)
            jobs.append(_job(fields, str(file)))
            described.append(fields)
        except ResultsError as error:
            notes.append(f"job {child.name} is not in the table: {error}")
    if not jobs:
        details = "; ".join(notes[1:]) or f"no job left a {JOB_RESULTS_FILE}"
        raise ResultsError(f"{directory} holds no results to show: {details}")
    started = [text for fields in described if isinstance(text := fields.get("started_at"), str)]
    host = described[0].get("host")
    return Run(
        directory=directory,
        scenario=jobs[0].scenario,
        jobs=tuple(jobs),
        started_at=min(started, default=None),
        commit=_commit(described[0]),
        host=host if isinstance(host, dict) else {},
        notes=tuple(notes),
    )


def _read_object(file: Path) -> dict[str, Any]:
    try:
        fields = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ResultsError(f"{file} cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise ResultsError(f"{file} is damaged, it is not whole JSON: {error}{_way_out(file)}") from error
    if not isinstance(fields, dict):
        raise ResultsError(f"{file} is damaged: expected an object, got {type(fields).__name__}{_way_out(file)}")
    version = fields.get("schema_version")
    if not isinstance(version, int) or isinstance(version, bool):
        raise ResultsError(f"{file} is no result of bucketbench: its schema_version is {version!r}, not a number")
    if version > SCHEMA_VERSION:
        raise ResultsError(
            f"{file} has schema version {version}, and this bucketbench reads up to {SCHEMA_VERSION}: update it"
        )
    return fields


def _way_out(file: Path) -> str:
    if file.name == RUN_RESULTS_FILE and any(file.parent.glob(f"*/{JOB_RESULTS_FILE}")):
        return f" (move it away to have the {JOB_RESULTS_FILE} files beside it read instead)"
    return ""


def _job(fields: Any, where: str) -> MeasuredJob:
    if not isinstance(fields, dict):
        raise ResultsError(f"{where} is damaged: expected an object, got {type(fields).__name__}")
    status = _field(fields, "status", str, where)
    if status not in ("ok", "failed"):
        raise ResultsError(f"{where} is damaged: status is {status!r}, expected ok or failed")
    reason = _optional(fields, "reason", str, where)
    figures = _field(fields, "figures", dict, where)
    return MeasuredJob(
        scenario=_field(fields, "scenario", str, where),
        client=_field(fields, "client", str, where),
        role=_role(fields, where),
        library=_library(fields),
        parameters=_field(fields, "parameters", dict, where),
        repeat=_field(fields, "repeat", int, where),
        figures={name: _figure(figure, f"{where}, figure {name}") for name, figure in figures.items()},
        details={name: str(value) for name, value in (_optional(fields, "details", dict, where) or {}).items()},
        failure=None if status == "ok" else reason or "no reason was recorded",
    )


def _figure(fields: Any, where: str) -> Figure:
    if not isinstance(fields, dict):
        raise ResultsError(f"{where} is damaged: expected an object, got {type(fields).__name__}")
    value = fields.get("value")
    if value is not None and not _is_finite(value):
        raise ResultsError(f"{where} is damaged: its value is {value!r}, expected a finite number or null")
    reason = _optional(fields, "reason", str, where)
    try:
        return Figure(unit=_field(fields, "unit", str, where), value=value, reason=reason)
    except ValueError as error:
        raise ResultsError(f"{where} is damaged: {error}") from error


def _is_finite(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond what a float can hold
        return False


def _role(fields: Mapping[str, Any], where: str) -> Role:
    """The client's role, as its configuration has it; a contestant where the results do not tell."""
    name = fields.get("role")
    config = fields.get("config")
    client = config.get("client") if isinstance(config, dict) else None
    if name is None and isinstance(client, dict):
        name = client.get("role")
    if name is None:
        return Role.CONTESTANT
    try:
        return Role(name)
    except ValueError as error:
        raise ResultsError(f"{where} is damaged: role is {name!r}, expected {' or '.join(Role)}") from error


def _library(fields: Mapping[str, Any]) -> str | None:
    """The packages that the client's configuration says it requires; None where the results do not tell any."""
    config = fields.get("config")
    client = config.get("client") if isinstance(config, dict) else None
    requires = client.get("requires") if isinstance(client, dict) else None
    return ", ".join(str(package) for package in requires) or None if isinstance(requires, list) else None


def _commit(fields: Mapping[str, Any]) -> str | None:
    commit = fields.get("commit")
    return commit if isinstance(commit, str) else None


def _field(fields: Mapping[str, Any], name: str, kind: type[_T], where: Path | str) -> _T:
    value = _optional(fields, name, kind, where)
    if value is None:
        raise ResultsError(f"{where} is damaged: {name} is missing")
    return value


def _optional(fields: Mapping[str, Any], name: str, kind: type[_T], where: Path | str) -> _T | None:
    value = fields.get(name)
    if value is not None and (not isinstance(value, kind) or (kind is int and isinstance(value, bool))):
        raise ResultsError(f"{where} is damaged: {name} is of type {type(value).__name__}, expected {kind.__name__}")
    return value
