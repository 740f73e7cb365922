"""The raw records of a run's jobs, where they lie beside the results."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from bucketbench.errors import ResultsError
from bucketbench.records import Operation, UsageSample
from bucketbench.report.runs import Run, read_jobs
from bucketbench.results.job import JobResult
from bucketbench.results.raw import read_raw
from bucketbench.secrecy import home_directories, without_home

__all__ = ["JobRecords", "read_records"]

_LONGEST_S: Final = 30 * 86_400.0
_MOST_TOLD: Final = 5  # reasons why records are not there, each a banner of the page


@dataclass(frozen=True, kw_only=True, slots=True)
class JobRecords:
    """What one job recorded.

    Args:
        client: its client, as the table calls it.
        parameters: its parameters, as canonical JSON.
        repeat: its number.
        operations: empty where there are none.
        usage: likewise.
    """

    client: str
    parameters: str
    repeat: int
    operations: tuple[Operation, ...]
    usage: tuple[UsageSample, ...]


def read_records(run: Run) -> tuple[list[JobRecords], list[str]]:
    """The records of the jobs that succeeded, and why some are not there.

    Args:
        run: of one scenario.
    """
    try:
        directories = {_key(result): directory for directory, result in read_jobs(run.directory)}
    except ResultsError as error:
        return [], without_home([f"the raw records were left out: {error}"], home_directories())
    records, absent = [], []
    for job, result in zip(run.jobs, run.results, strict=True):
        directory = directories.get(_key(result))
        if not result.ok:
            continue
        if directory is None:
            absent.append("no raw records lie beside the results, so that nothing is drawn over time")
            continue
        try:
            operations, usage = read_raw(directory, ended=True)
        except ResultsError as error:
            absent.append(f"the records of job {result.number} were left out: {error}")
            continue
        if not _is_plausible(operations, usage):
            absent.append(f"the records of job {result.number} were left out: their times or amounts make no sense")
            continue
        records.append(
            JobRecords(
                client=job.client,
                parameters=json.dumps(job.parameters, sort_keys=True),
                repeat=job.repeat,
                operations=tuple(operations),
                usage=tuple(usage),
            )
        )
    told = without_home(list(dict.fromkeys(absent)), home_directories())  # a page is for others
    more = len(told) - _MOST_TOLD
    return records, [*told[:_MOST_TOLD], *([f"the records of {more} more jobs were left out"] if more > 0 else [])]


def _is_plausible(operations: Sequence[Operation], usage: Sequence[UsageSample]) -> bool:
    """Whether records may be drawn: a damaged time would make a time line of years."""
    times = [time for one in operations for time in (one.started_s, one.ended_s)] + [one.at_s for one in usage]
    amounts = [amount for one in operations for amount in (one.samples, one.content_bytes, one.errors)]
    amounts += [one.rss_bytes for one in usage]
    return (
        all(isinstance(time, int | float) and math.isfinite(time) for time in times)
        and max(times, default=0.0) - min(times, default=0.0) <= _LONGEST_S
        and all(one.started_s <= one.ended_s for one in operations)
        and all(isinstance(amount, int) and 0 <= amount < 2**63 for amount in amounts)
    )


def _key(result: JobResult) -> str:
    # When it began tells it from the same job of another run, which may lie below the same directory.
    told = (result.scenario, result.client, result.client_options, result.parameters, result.repeat, result.started_at)
    return json.dumps(told, sort_keys=True)
