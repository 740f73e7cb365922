"""The figures of a run derived again from its raw records, by the definitions of this version of the program."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec

from bucketbench.errors import ResultsError
from bucketbench.report.runs import Run, measured, read_jobs
from bucketbench.results.job import JobResult, traffic_fields, validity_of
from bucketbench.results.raw import read_raw, read_server
from bucketbench.scenarios import find_scenario
from bucketbench.validity import without_outside

__all__ = ["derive_again"]


def derive_again(run: Run) -> Run:
    """The same run with every figure and every mark made from the raw records in the jobs' directories.

    A failed job may have no records, or a last line that was cut off; it then keeps the figures it has.

    Raises:
        ResultsError: the records of a job that succeeded are missing or damaged, where the message names the file, or
            the directories of some jobs are gone.
    """
    found = read_jobs(run.directory)
    if not found:
        raise ResultsError(
            f"{run.directory} has no raw records: they lie in the directories of its jobs, beside the run"
        )
    if len(found) < len(run.jobs):
        raise ResultsError(
            f"{run.directory} has the raw records of {len(found)} of its {len(run.jobs)} jobs: the directories of the "
            "others are gone, and their figures are in the run's own file alone; leave --recompute out"
        )
    results = tuple(_derived(result, directory) for directory, result in found)
    return replace(run, jobs=measured(results), results=results)


def _derived(result: JobResult, directory: Path) -> JobResult:
    try:
        operations, usage = read_raw(directory, ended=True)
        server = read_server(directory)
    except ResultsError:
        if result.ok:
            raise
        return result
    known = find_scenario(result.scenario).figures
    validity = None
    if result.ok:
        nodes, memory_mib = result.config.get("nodes"), result.host.get("memory_mib")
        validity = validity_of(
            (operations, usage),
            server=server,
            details=result.details,
            verification=result.verification,
            nodes=nodes if isinstance(nodes, int) else 1,
            memory_mib=memory_mib if isinstance(memory_mib, int) else None,
        )
    return msgspec.structs.replace(
        result,
        figures=without_outside(known.of_job(operations, usage, server=server), result.details),
        validity=validity,
        **traffic_fields(known.traffic(operations, server)),
    )
