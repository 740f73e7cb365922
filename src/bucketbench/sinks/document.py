"""A run as a sink is given it: its results and raw records, without secrets, in numbers that any table can hold."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from bucketbench.errors import ResultsError
from bucketbench.job.description import OPERATIONS_FILE, USAGE_FILE, rank_directories
from bucketbench.results.files import JOB_RESULTS_FILE, RUN_RESULTS_FILE, check_schema_version, job_directories
from bucketbench.results.record import RunRecord
from bucketbench.secrecy import redacted, secret_values, without_secrets

__all__ = ["NOT_FINITE", "JobDocument", "RunDocument", "marked", "read_run", "results_of", "unmarked"]

NOT_FINITE: Final = "_not_finite"
"""What the name of a number ends with in the flag beside it, where it is none: ``nan``, ``inf`` or ``-inf``."""


_PIECE_CHARACTERS: Final = 1 << 20
"""Of a file of raw records, which may be larger than memory allows to have several times."""

_CONFIGURATION: Final = frozenset({"client_options", "config", "parameters"})


@dataclass(frozen=True, kw_only=True, slots=True)
class JobDocument:
    """A job of a run.

    Args:
        number: its place in the run; no other job of it has the same.
        results: its ``job_results.json``, as ``marked`` gives it.
        directory: where its raw records lie, None where that is not known.
        secrets: values that must not be told.
    """

    number: int
    results: Mapping[str, Any]
    directory: Path | None
    secrets: tuple[str, ...] = ()

    def records(self) -> Iterator[tuple[str, Iterator[str]]]:
        """The files of raw records, by their name below the job's directory, each in pieces of whole lines.

        Those that are not there are left out: a job may fail before it recorded anything.

        Raises:
            ResultsError: a file cannot be read, while its pieces are asked for.
        """
        if self.directory is None:
            return
        for folder in rank_directories(self.directory):
            for path in (folder / OPERATIONS_FILE, folder / USAGE_FILE):
                if path.exists():
                    yield path.relative_to(self.directory).as_posix(), self._pieces(path)

    def _pieces(self, path: Path) -> Iterator[str]:
        try:
            with path.open(encoding="utf-8", errors="backslashreplace", newline="\n") as file:
                while lines := file.readlines(_PIECE_CHARACTERS):
                    yield redacted("".join(lines), self.secrets)
        except OSError as error:
            raise ResultsError(f"{path} cannot be read: {error.strerror or error}") from error


@dataclass(frozen=True, kw_only=True, slots=True)
class RunDocument:
    """A run.

    Args:
        run_id: its identifier, ``SCENARIO/DIRECTORY``. Runs of two machines may share it, but hardly their beginning.
        started_at: when it began, as the results have it: ISO 8601.
        fields: its ``run_results.json`` but the jobs, as ``marked`` gives it.
        jobs: its jobs, by their numbers.
        jobs_planned: how many there were to be, None where that is not known.
    """

    run_id: str
    started_at: str
    fields: Mapping[str, Any]
    jobs: tuple[JobDocument, ...]
    jobs_planned: int | None = None


def read_run(path: Path) -> RunDocument:
    """Read a run's files. A run that was killed before it wrote its results is put together from those of its jobs.

    Args:
        path: the run's directory or its ``run_results.json``.

    Raises:
        ResultsError: there is no run, it has no job that ended, or a file is damaged or of a newer version.
    """
    directory = path if path.is_dir() else path.parent
    file = directory / RUN_RESULTS_FILE
    content = _content(file, directory) if path.is_dir() or path.name == RUN_RESULTS_FILE else None
    if content is None:
        raise ResultsError(f"there is no run at {path}: expected a run's directory or its {RUN_RESULTS_FILE}")
    check_schema_version(content, file)
    jobs = content.pop("jobs", None)
    if not isinstance(jobs, list) or not all(isinstance(job, dict) for job in jobs):
        raise ResultsError(f"{file} is damaged: jobs is no list of objects")
    if not jobs:
        raise ResultsError(f"{directory} has no job that ended, so there is nothing to push")
    content.setdefault("run_id", f"{content.get('scenario')}/{directory.absolute().name}")
    planned, started_at, secrets = content.get("jobs_planned"), content.get("started_at"), secret_values()
    if not isinstance(started_at, str) or not _is_time(started_at):
        raise ResultsError(f"{file} is damaged: started_at is {started_at!r}, which is no time with a zone")
    folders = _folders(directory)
    return RunDocument(
        run_id=str(content["run_id"]),
        started_at=started_at,
        fields=_told(content, secrets),
        jobs=tuple(
            JobDocument(number=number, results=_told(job, secrets), directory=folders.get(number), secrets=secrets)
            for number, job in sorted(_numbered(jobs).items())
        ),
        jobs_planned=planned if isinstance(planned, int) else None,
    )


def results_of(fields: Mapping[str, Any], jobs: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
    """The ``run_results.json`` that a table has in parts: the inverse of ``read_run``."""
    results: dict[str, Any] = unmarked({**fields, "jobs": [jobs[number] for number in sorted(jobs)]})
    return results


def marked(value: Any) -> Any:
    """A JSON value in which each number is finite: what is not is null, with a flag of its name and ``NOT_FINITE``.

    Results have a reason instead of such a number. Files of other harnesses, which Python reads, may have it. In a
    list, where nothing has a name, it is text. Unpaired surrogates, which no service takes, are written out.
    """
    if isinstance(value, Mapping):
        fields: dict[str, Any] = {}
        for name, item in value.items():
            if isinstance(item, float) and not math.isfinite(item):
                fields |= {_text(name): None, _text(name) + NOT_FINITE: str(item)}
            else:
                fields[_text(name)] = marked(item)
        return fields
    if isinstance(value, list):
        return [marked(item) for item in value]
    if isinstance(value, str):
        return _text(value)
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def unmarked(value: Any) -> Any:
    """What ``marked`` was given."""
    if isinstance(value, Mapping):
        flags = {name for name in value if name.endswith(NOT_FINITE) and name.removesuffix(NOT_FINITE) in value}
        numbers = {name.removesuffix(NOT_FINITE): float(value[name]) for name in flags if value[name] is not None}
        return {name: numbers.get(name, unmarked(item)) for name, item in value.items() if name not in flags}
    return [unmarked(item) for item in value] if isinstance(value, list) else value


def _content(file: Path, directory: Path) -> dict[str, Any] | None:
    if file.exists() and not file.is_file():  # of a pipe nothing may ever come
        raise ResultsError(f"{file} is no file")
    try:
        content = json.loads(file.read_bytes())
    except FileNotFoundError:
        record = RunRecord.read(directory)
        return None if record is None else record.results(ended=False)
    except OSError as error:
        raise ResultsError(f"{file} cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise ResultsError(f"{file} is damaged, it is not whole JSON: {error}") from error
    if not isinstance(content, dict):
        raise ResultsError(f"{file} is damaged: expected an object, got {type(content).__name__}")
    return content


def _told(results: Mapping[str, Any], secrets: tuple[str, ...]) -> dict[str, Any]:
    """Results as they may leave the machine. They were written without secrets; whatever made them, none is sent."""
    told = {name: without_secrets(value, secrets, by_name=name in _CONFIGURATION) for name, value in results.items()}
    fields: dict[str, Any] = marked(told)
    return fields


def _numbered(jobs: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """The jobs by their numbers; by their places where those do not tell them apart, as in version 1."""
    numbers = [number for job in jobs if isinstance(number := job.get("number"), int)]
    told = len(set(numbers)) == len(jobs)
    return {numbers[place] if told else place: job for place, job in enumerate(jobs)}


def _folders(directory: Path) -> dict[int, Path]:
    """The directories of jobs by their numbers; a file that tells none, or one twice, is of no use here."""
    found: dict[int, list[Path]] = {}
    for folder in job_directories(directory):
        number = _number_in(folder / JOB_RESULTS_FILE)
        if number is not None:
            found.setdefault(number, []).append(folder)
    return {number: folders[0] for number, folders in found.items() if len(folders) == 1}


def _number_in(file: Path) -> int | None:
    try:
        number = json.loads(file.read_bytes())["number"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return number if isinstance(number, int) else None


def _is_time(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


def _text(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()
