"""The figures of a run derived again from its raw records, by the definitions of this version of the program."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from bucketbench.errors import ResultsError
from bucketbench.job import OPERATIONS_FILE, OUTCOME_FILE, USAGE_FILE
from bucketbench.records import Operation, UsageSample
from bucketbench.report.runs import Run, job_directories, read_job
from bucketbench.results.files import JOB_RESULTS_FILE
from bucketbench.scenarios import figures_of
from bucketbench.statistics import MeasuredJob, ServerCounts

__all__ = ["derive_again"]

_T = TypeVar("_T")


def derive_again(run: Run) -> Run:
    """The same run with every figure computed from the raw records in the jobs' directories.

    A failed job may have no records, or a last line that was cut off; it then keeps the figures it has.

    Raises:
        ResultsError: the records of a job that succeeded are missing or damaged; the message names the file.
    """
    files = [directory / JOB_RESULTS_FILE for directory in job_directories(run.directory)]
    jobs = tuple(_derived(file) for file in files if file.exists())
    if not jobs:
        raise ResultsError(
            f"{run.directory} has no raw records: they lie in the directories of its jobs, beside the run"
        )
    return replace(run, jobs=jobs)


def _derived(file: Path) -> MeasuredJob:
    job = read_job(file)
    directory = file.parent
    try:
        operations = _records(directory / OPERATIONS_FILE, Operation.from_json)
        usage = _records(directory / USAGE_FILE, UsageSample.from_json)
        server = _server(directory / OUTCOME_FILE)
    except ResultsError:
        if job.failure is None:
            raise
        return job
    return replace(job, figures=figures_of(job.scenario).of_job(operations, usage, server=server))


def _records(file: Path, parse: Callable[[dict[str, Any]], _T]) -> list[_T]:
    records = []
    for number, line in enumerate(_text(file).splitlines(), start=1):
        try:
            records.append(parse(json.loads(line)))
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise ResultsError(f"{file} is damaged in line {number}, which is no record: {error}") from error
    return records


def _server(file: Path) -> ServerCounts | None:
    try:
        counts = json.loads(_text(file))["server"]
        return None if counts is None else ServerCounts(**counts)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ResultsError(f"{file} is damaged, it has no server counts: {error}") from error


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ResultsError(f"{file} cannot be read: {error}") from error
