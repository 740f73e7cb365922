"""What is drawn of the raw records of a run's jobs, where these lie beside the results.

A job's records may be as large as memory: they are read job by job, and of each what is drawn is kept.
"""

from __future__ import annotations

import json
import math
from array import array
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from bucketbench.errors import ResultsError
from bucketbench.records import Operation, Phase, UsageSample
from bucketbench.report.runs import Run, read_jobs
from bucketbench.report.values import identity
from bucketbench.results.job import JobResult
from bucketbench.results.raw import read_raw
from bucketbench.scenarios.presentation import Stream
from bucketbench.secrecy import home_directories, without_home
from bucketbench.statistics.timeline import SEGMENT_S, Moment, Segment, memory_over_time, throughput_over_time

__all__ = ["JobRecords", "StreamRecords", "read_records"]

_LONGEST_S: Final = 30 * 86_400.0
_MOST_SEGMENTS: Final = 300  # of a line
_MOST_TOLD: Final = 5  # reasons why records are not there, each a banner of the page


@dataclass(frozen=True, kw_only=True, slots=True)
class StreamRecords:
    """The operations of one kind.

    Args:
        durations_ms: of those of which everything arrived, in milliseconds.
        segments: what they brought in each stretch of ``JobRecords.segment_s``, in the unit of the stream.
    """

    durations_ms: Sequence[float]
    segments: Sequence[Segment]


@dataclass(frozen=True, kw_only=True, slots=True)
class JobRecords:
    """What one job recorded.

    Args:
        client: its client, as the table calls it.
        parameters: what identifies its parameters.
        repeat: its number.
        segment_s: length of a segment, in seconds: ``SEGMENT_S``, doubled until a line has not too many.
        streams: in the order in which they were asked for.
        memory: over time.
    """

    client: str
    parameters: str
    repeat: int
    segment_s: float
    streams: tuple[StreamRecords, ...]
    memory: Sequence[Moment]


def read_records(
    run: Run, streams: Sequence[Stream], *, parameters: Collection[str]
) -> tuple[list[JobRecords], list[str]]:
    """The records of the jobs that succeeded, and why some are not there.

    Args:
        run: of one scenario.
        streams: which operations are drawn.
        parameters: what identifies the parameters of the jobs that are drawn.
    """
    try:
        directories = {_key(result): directory for directory, result in read_jobs(run.directory)}
    except ResultsError as error:
        return [], without_home([f"the raw records were left out: {error}"], home_directories())
    records, absent = [], []
    for job, result in zip(run.jobs, run.results, strict=True):
        own = identity(job.parameters)
        if not result.ok or own not in parameters:
            continue
        directory = directories.get(_key(result))
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
        segment_s = _segment_s(operations)
        records.append(
            JobRecords(
                client=job.client,
                parameters=own,
                repeat=job.repeat,
                segment_s=segment_s,
                streams=tuple(_stream(operations, stream, segment_s) for stream in streams),
                memory=memory_over_time(operations, usage),
            )
        )
    told = without_home(list(dict.fromkeys(absent)), home_directories())  # a page is for others
    more = len(told) - _MOST_TOLD
    return records, [*told[:_MOST_TOLD], *([f"the records of {more} more jobs were left out"] if more > 0 else [])]


def _stream(operations: Sequence[Operation], stream: Stream, segment_s: float) -> StreamRecords:
    whole = (
        1000 * one.duration_s
        for one in operations
        if one.kind is stream.kind and one.phase is Phase.MEASURE and one.samples > 0 and one.errors == 0
    )
    return StreamRecords(
        durations_ms=array("d", whole),
        segments=throughput_over_time(
            operations, stream.kind, lambda one: getattr(one, stream.amount) * stream.scale, segment_s=segment_s
        ),
    )


def _segment_s(operations: Sequence[Operation]) -> float:
    times_s = [time_s for one in operations if one.phase is Phase.MEASURE for time_s in (one.started_s, one.ended_s)]
    segments = (max(times_s, default=0.0) - min(times_s, default=0.0)) / SEGMENT_S
    return SEGMENT_S * 2.0 ** max(0, math.ceil(math.log2(max(segments, 1) / _MOST_SEGMENTS)))


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
