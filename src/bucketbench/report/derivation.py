"""The figures of a run derived again from its raw records, by the definitions of this version of the program."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec

from bucketbench.errors import ResultsError
from bucketbench.report.runs import Run, measured, read_jobs
from bucketbench.results.job import JobResult
from bucketbench.results.raw import read_raw, read_server
from bucketbench.scenarios import find_scenario

__all__ = ["derive_again"]


def derive_again(run: Run) -> Run:
    """The same run with every figure computed from the raw records in the jobs' directories.

    A failed job may have no records, or a last line that was cut off; it then keeps the figures it has.

    Raises:
        ResultsError: the records of a job that succeeded are missing or damaged; the message names the file.
    """
    found = read_jobs(run.directory)
    if not found:
        raise ResultsError(
            f"{run.directory} has no raw records: they lie in the directories of its jobs, beside the run"
        )
    return replace(run, jobs=measured(_derived(result, directory) for directory, result in found))


def _derived(result: JobResult, directory: Path) -> JobResult:
    try:
        operations, usage = read_raw(directory, ended=True)
        server = read_server(directory)
    except ResultsError:
        if result.ok:
            raise
        return result
    figures = find_scenario(result.scenario).figures.of_job(operations, usage, server=server)
    return msgspec.structs.replace(result, figures=figures)
