"""A run as its result files tell it, also where the sweep was interrupted."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from bucketbench.cost.pricing import Pricing
from bucketbench.errors import ResultsError
from bucketbench.report.values import UNSET, identity, texts_by_key
from bucketbench.results.files import (
    JOB_RESULTS_FILE,
    JOB_WAY_OUT,
    RUN_RESULTS_FILE,
    check_schema_version,
    job_directories,
)
from bucketbench.results.job import JobResult
from bucketbench.results.s3torchbenchmarking import is_run, run_results
from bucketbench.secrecy import home_directories, without_home
from bucketbench.statistics import MeasuredJob, Role
from bucketbench.visible import in_one_line, visible, visible_in

__all__ = ["Run", "by_scenario", "every_run", "load_run", "measured", "newest_run", "read_jobs", "versions_of"]

_T = TypeVar("_T")
_JOB_MARKS = (JOB_RESULTS_FILE, "job.json")
_TOLD = ("parameters", "client_options", "details", "host", "config")  # by which jobs are compared, sorted and found
_NAMES = ("client", "disambiguator", "commit")
_HALF_CHARACTER = re.compile(r"\\u[dD][89a-fA-F]")


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """The jobs of one sweep.

    Args:
        directory: where the files lie.
        id: by which its results are known wherever they were copied; None where the sweep was interrupted.
        scenario: the scenario of its jobs; of the first where they are of several, see ``by_scenario``.
        jobs: the jobs whose results were read, failed ones among them.
        results: what was read of each of them, in the same order.
        started_at: ISO 8601, None where the sweep was interrupted before it was written.
        ended_at: likewise.
        commit: of the repository that ran it, where known.
        command: the overrides that it was started with, None where they are not known.
        host: what is known of the machine.
        label: the words by which it is told from others, None where it has none.
        notes: what a reader must know to judge the run: that it was interrupted, and which jobs are missing.
        pricing: by which prices the jobs have figures of costs, None where they have none.
    """

    directory: Path
    id: str | None = None
    scenario: str
    jobs: tuple[MeasuredJob, ...]
    results: tuple[JobResult, ...]
    started_at: str | None = None
    ended_at: str | None = None
    commit: str | None = None
    command: tuple[str, ...] | None = None
    host: Mapping[str, Any]
    label: str | None = None
    notes: tuple[str, ...] = ()
    pricing: Pricing | None = None

    @property
    def name(self) -> str:
        """The scenario and the name of the directory, by which a run is told from others."""
        return visible(f"{self.scenario}/{self.directory.resolve().name}")

    @property
    def disambiguator(self) -> str | None:
        """The word that marks its results; None where none was given."""
        return ",".join(dict.fromkeys(one.disambiguator for one in self.results if one.disambiguator)) or None


def versions_of(results: Iterable[JobResult]) -> dict[str, str]:
    """The versions that some results were measured with, by package; of one of which they had several, all of them."""
    found: dict[str, dict[str, None]] = {}
    for result in results:
        for name, version in result.versions.items():
            if version is not None:
                found.setdefault(name, {})[str(version)] = None
    return {name: " and ".join(versions) for name, versions in sorted(found.items())}


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
        if not file.exists():
            return _interrupted_run(path)
        if not file.is_file():  # of a pipe nothing may ever come
            raise ResultsError(f"{file} is no file{_way_out(file)}")
        return _whole_run(file)
    if path.exists():
        return _whole_run(path)
    raise ResultsError(f"there is no run at {path}: expected a run's directory or its {RUN_RESULTS_FILE}")


def by_scenario(run: Run) -> list[Run]:
    """The run in parts, each with the jobs of one scenario, in the order in which the scenarios ran.

    A sweep has one scenario. A directory may hold the jobs of several, put together by hand.
    """
    scenarios = dict.fromkeys(job.scenario for job in run.jobs)
    return [
        replace(
            run,
            scenario=scenario,
            jobs=tuple(job for job in run.jobs if job.scenario == scenario),
            results=tuple(result for result in run.results if result.scenario == scenario),
        )
        for scenario in scenarios
    ]


def newest_run(multirun: Path) -> Path:
    """The directory of the newest run of any scenario, by the time stamp that is its name.

    Args:
        multirun: the directory of all runs, ``<scenario>/<time stamp>`` below it.

    Raises:
        ResultsError: where it has no run.
    """
    # Two sweeps may have started in the same second, with the same name in different scenarios.
    return max(every_run(multirun), key=lambda directory: (directory.resolve().name, directory.stat().st_mtime_ns))


def every_run(multirun: Path) -> list[Path]:
    """The directories of all runs of all scenarios, each once whatever links lead to it.

    Args:
        multirun: as of ``newest_run``.

    Raises:
        ResultsError: where it has no run.
    """
    links_first = sorted(multirun.glob("*/*"), key=lambda directory: (not directory.is_symlink(), directory))
    runs = {found.resolve(): found for found in links_first if found.is_dir() and _is_run(found)}
    if not runs:
        raise ResultsError(
            f"there is no run in {multirun.absolute()}: run ./utils/run_dataset_benchmarks.sh first, name a run's "
            "directory, or say with --multirun where the runs are"
        )
    return sorted(runs.values())


def read_jobs(run_directory: Path) -> tuple[tuple[Path, JobResult], ...]:
    """The results of a run's jobs, with the directories in which they lie, in the order of the jobs' numbers.

    Raises:
        ResultsError: a file cannot be read, is damaged, or of a newer schema; the message names it.
    """
    read = [(directory, _job_result(directory / JOB_RESULTS_FILE)) for directory in job_directories(run_directory)]
    return tuple(sorted(read, key=lambda found: (found[1].number, _natural(found[0]))))


def _natural(folder: Path) -> tuple[bool, int, str]:
    """The order of directories by name: numbers first, as numbers. Results of version 1 have no other."""
    name = folder.name
    return not name.isdecimal(), int(name) if name.isdecimal() else 0, name


def measured(results: Iterable[JobResult]) -> tuple[MeasuredJob, ...]:
    """Jobs as statistics take them.

    A client that was set up in several ways is several contestants: its name is followed by what differs.
    """
    results = tuple(results)
    variants: dict[str, dict[str, Mapping[str, Any]]] = {}
    for result in results:
        variants.setdefault(result.client, {})[identity(result.client_options)] = result.client_options
    contestants = {client: _contestants(client, found) for client, found in variants.items()}
    return tuple(
        MeasuredJob(
            scenario=result.scenario,
            client=contestants[result.client][identity(result.client_options)],
            role=_role(result),
            library=_library(result),
            parameters=result.parameters,
            repeat=result.repeat,
            figures=result.figures,
            details={name: str(value) for name, value in result.details.items()},
            failure=None if result.ok else result.reason or "no reason was recorded",
            state=None if result.validity is None else result.validity.state,
            marks=() if result.validity is None else result.validity.marks,
        )
        for result in results
    )


def _contestants(client: str, variants: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """The name of a client with each of its sets of options, by what identifies these."""
    names = dict.fromkeys(name for options in variants.values() for name in options)
    own = [{name: options.get(name, UNSET) for name in names} for options in variants.values()]
    differing = [name for name in names if len({identity(one[name]) for one in own}) > 1]
    if not differing:
        return dict.fromkeys(variants, client)
    told = [
        ", ".join(f"{name.removeprefix('options.')}={texts[name]}" for name in differing) for texts in texts_by_key(own)
    ]
    return {key: f"{client} ({texts})" for key, texts in zip(variants, told, strict=True)}


def _is_run(directory: Path) -> bool:
    return (directory / RUN_RESULTS_FILE).exists() or bool(job_directories(directory))


def _whole_run(file: Path) -> Run:
    fields = _read_object(file)
    jobs = _field(fields, "jobs", list, file)
    if not jobs:
        raise ResultsError(f"{file} has no job: the sweep ended before its first job did, so there is nothing to show")
    command = _optional(fields, "command", list, file)
    results = tuple(_result(job, f"{file}, job {number}") for number, job in enumerate(jobs))
    return Run(
        directory=file.parent,
        id=_optional(fields, "run_id", str, file),
        scenario=_field(fields, "scenario", str, file),
        jobs=measured(results),
        results=results,
        started_at=_optional(fields, "started_at", str, file),
        ended_at=_optional(fields, "ended_at", str, file),
        commit=_commit(fields),
        command=None if command is None else tuple(map(str, command)),
        host=_comparable(_optional(fields, "host", dict, file) or {}),
        label=_label_of(results),
        notes=(*_incomplete(fields, len(jobs), file), *_resumed(fields, results, file)),
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


def _resumed(fields: Mapping[str, Any], results: Sequence[JobResult], file: Path) -> Iterator[str]:
    """What a reader must know of a run that was not measured in one go."""
    times = [str(at) for at in _optional(fields, "resumed_at", list, file) or ()]
    if times:
        yield f"the sweep was resumed at {', '.join(times)}: jobs before and after met the machine at different times"
    commits = dict.fromkeys(str(result.commit) for result in results)
    if len(commits) > 1:
        yield f"its jobs were measured at different commits: {', '.join(commit[:12] for commit in commits)}"


def _label_of(results: Sequence[JobResult]) -> str | None:
    """The run's label, as each job has it; before there were labels that was the disambiguator."""
    first = results[0]
    label = first.config.get("label", first.disambiguator)
    return None if label is None else str(label)


def _interrupted_run(directory: Path) -> Run:
    notes = [f"{RUN_RESULTS_FILE} is missing: the sweep was interrupted, or still runs"]
    results: list[JobResult] = []
    for folder in sorted(job_directories(directory, *_JOB_MARKS), key=_natural):
        file = folder / JOB_RESULTS_FILE
        name = folder.relative_to(directory)
        if not file.exists():
            notes.append(f"job {name} left no {JOB_RESULTS_FILE} and is not in the table")
            continue
        try:
            results.append(_result(_read_object(file), str(file)))
        except ResultsError as error:
            notes.append(f"job {name} is not in the table: {error}")
    if not results:
        details = "; ".join(notes[1:]) or f"no job left a {JOB_RESULTS_FILE}"
        raise ResultsError(f"{directory} holds no results to show: {details}")
    results.sort(key=lambda result: result.number)
    return Run(
        directory=directory,
        scenario=results[0].scenario,
        jobs=measured(results),
        results=tuple(results),
        started_at=min((result.started_at for result in results if result.started_at), default=None),
        commit=results[0].commit,
        host=results[0].host,
        label=_label_of(results),
        notes=tuple(map(visible, without_home(notes, home_directories()))),
    )


def _read_object(file: Path) -> dict[str, Any]:
    try:
        data = file.read_bytes()
        text = data.decode(json.detect_encoding(data))  # other programs write it with a mark before it, or as UTF-16
        fields = json.loads(text)
        if _HALF_CHARACTER.search(text):  # of a file's name that is no text: no encoding could write it
            fields = json.loads(json.dumps(fields, ensure_ascii=False).encode(errors="replace"))
        fields = visible_in(fields)
    except OSError as error:
        raise ResultsError(f"{file} cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise ResultsError(f"{file} is damaged, it is not whole JSON: {error}{_way_out(file)}") from error
    if not isinstance(fields, dict):
        raise ResultsError(f"{file} is damaged: expected an object, got {type(fields).__name__}{_way_out(file)}")
    if is_run(fields):
        try:
            return run_results(fields)
        except ResultsError as error:
            raise ResultsError(f"{file} cannot be read: {error}") from error
    check_schema_version(fields, file)
    return fields


def _way_out(file: Path) -> str:
    if file.name == RUN_RESULTS_FILE and job_directories(file.parent):
        return f" (move it away to have the {JOB_RESULTS_FILE} files beside it read instead)"
    if file.name == JOB_RESULTS_FILE:
        return f" ({JOB_WAY_OUT})"
    return ""


def _job_result(file: Path) -> JobResult:
    fields = _read_object(file)
    try:
        return _result(fields, str(file))
    except ResultsError as error:
        raise ResultsError(f"{error}{_way_out(file)}") from error


def _result(fields: Any, where: str) -> JobResult:
    if isinstance(fields, Mapping):  # what it is else is told below
        fields = {
            name: _comparable(value) if name in _TOLD or (isinstance(value, str) and name in _NAMES) else value
            for name, value in fields.items()
        }
    try:
        return msgspec.convert(fields, type=JobResult)
    except msgspec.ValidationError as error:
        raise ResultsError(f"{where} is damaged: {error}") from error


def _comparable(value: Any) -> Any:
    """A JSON value in which NaN, which is equal to nothing, and what no float holds is text, and text one line."""
    if isinstance(value, str):
        return in_one_line(value)
    if isinstance(value, Mapping):
        return {in_one_line(name): _comparable(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_comparable(item) for item in value]
    is_odd = (isinstance(value, float) and not math.isfinite(value)) or (
        isinstance(value, int) and abs(value) > sys.float_info.max
    )
    return str(value) if is_odd else value


def _role(result: JobResult) -> Role:
    """The client's role, as its configuration has it; a contestant where the results do not tell."""
    client = result.config.get("client")
    name = result.role or (client.get("role") if isinstance(client, dict) else None) or Role.CONTESTANT
    try:
        return Role(name)
    except ValueError as error:
        raise ResultsError(f"a job is damaged: role is {name!r}, expected {' or '.join(Role)}") from error


def _library(result: JobResult) -> str | None:
    """The packages that the client's configuration says it requires; None where the results do not tell any."""
    client = result.config.get("client")
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
