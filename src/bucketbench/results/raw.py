"""The raw records that a job's measured processes left, of all its ranks."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from bucketbench.errors import ResultsError
from bucketbench.job.description import CLOCK_FILE, OPERATIONS_FILE, OUTCOME_FILE, USAGE_FILE, rank_directories
from bucketbench.records import Operation, UsageSample
from bucketbench.statistics import ServerCounts

__all__ = ["RawRecords", "read_outcome", "read_raw", "read_server"]

_T = TypeVar("_T")
_PEER_LOST = "/gloo/transport/"  # what a rank says whose peer has gone, whatever that one has met

RawRecords = tuple[list[Operation], list[UsageSample]]
"""Operations and usage samples."""


def read_raw(directory: Path, *, ended: bool) -> RawRecords:
    """The operations and usage samples of a job, those of rank 0 first, all by the clock of rank 0's machine.

    Args:
        directory: the job's.
        ended: whether the measured processes came to their end. One that was killed may have left no file, or the last
            line of one cut off.

    Raises:
        ResultsError: a file is damaged, or missing though the job has ended; the message names it.
    """
    operations: list[Operation] = []
    usage: list[UsageSample] = []
    folders = rank_directories(directory)
    if ended:
        _check_all_there(directory, folders)
    for rank, folder in enumerate(folders):
        ahead_s = _clock_offset_s(folder)
        told = (_outcome(folder / OUTCOME_FILE) or {}).get("records", {}) if ended else {}
        operations += (
            replace(one, started_s=one.started_s + ahead_s, ended_s=one.ended_s + ahead_s) if ahead_s else one
            for one in _records(
                folder / OPERATIONS_FILE, Operation.from_json, ended=ended, lines=told.get(OPERATIONS_FILE)
            )
        )
        usage += (
            replace(sample, rank=rank, at_s=sample.at_s + ahead_s) if sample.rank != rank or ahead_s else sample
            for sample in _records(folder / USAGE_FILE, UsageSample.from_json, ended=ended, lines=told.get(USAGE_FILE))
        )
    return operations, usage


def _check_all_there(directory: Path, folders: list[Path]) -> None:
    """Raise where a rank's records are gone: without them the others would have done all of its work."""
    outcome = _outcome(folders[0] / OUTCOME_FILE) or {}
    told = outcome.get("ranks", len(folders))  # what a version recorded that did not tell it
    there = [int(folder.name) for folder in folders] if folders != [directory] else [0]
    gone = sorted({*range(told), *range(there[-1])} - {*there})
    if gone:
        raise ResultsError(
            f"{directory} has no records of {_ranks_named(gone)}: the figures of a job are of all its ranks, put their "
            "folders back below ranks/"
        )


def _clock_offset_s(folder: Path) -> float:
    """What a rank's times lack to those of rank 0; nothing where all ranks are on one machine."""
    path = folder / CLOCK_FILE
    try:
        return float(json.loads(path.read_bytes())["offset_s"])
    except FileNotFoundError:
        return 0.0
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ResultsError(f"{path} is damaged, it has no offset: {error}") from error


def _records(path: Path, parse: Callable[[dict[str, Any]], _T], *, ended: bool, lines: int | None) -> Iterator[_T]:
    number = 0
    try:
        # As bytes, whose lines end as JSON's do: other ends of lines, such as U+2028, may stand in its texts.
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                try:
                    record = parse(json.loads(line.decode()))
                except (ValueError, TypeError, KeyError, RecursionError) as error:
                    if not ended and next(file, None) is None:
                        return
                    raise ResultsError(f"{path} is damaged in line {number}, which is no record: {error}") from error
                yield record
    except OSError as error:
        if isinstance(error, FileNotFoundError) and not ended:
            return
        raise ResultsError(f"{path} cannot be read: {error.strerror or error}") from error
    if lines is not None and number != lines:  # it may be cut between two lines
        raise ResultsError(f"{path} is damaged: it has {number} records, and was written with {lines}")
    if lines is None and ended and not number:
        raise ResultsError(f"{path} is damaged: it has no record")


def read_outcome(directory: Path, *, otherwise: str) -> dict[str, Any]:
    """What the measured processes concluded: rank 0 speaks for all, unless one of the others failed.

    Args:
        directory: the job's.
        otherwise: the reason of the failure where a rank left no outcome that can be read.
    """
    folders = rank_directories(directory)
    outcomes = [_outcome(folder / OUTCOME_FILE) for folder in folders]
    failures: dict[str, list[int]] = {}
    for rank, outcome in enumerate(outcomes):
        if outcome is not None and outcome["status"] != "ok":
            failures.setdefault(str(outcome["reason"]), []).append(rank)
    alone = [told for told in failures if _PEER_LOST not in told]
    for told in list(failures) if alone else ():
        if told not in alone:
            del failures[told]  # it is what the failure of another rank has made of this one
    first = outcomes[0]
    if first is None or None in outcomes or failures:
        empty: dict[str, Any] = {"verification": None, "server": None, "details": {}, "versions": {}}
        reason = "; ".join(
            f"{_ranks_named(ranks)}: {told}" if len(folders) > 1 else told for told, ranks in failures.items()
        )
        return {**empty, **(first or {}), "status": "failed", "reason": reason or otherwise}
    return first


def _ranks_named(ranks: list[int]) -> str:
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    return f"ranks {', '.join(map(str, ranks[:-1]))} and {ranks[-1]}"


def _outcome(path: Path) -> dict[str, Any] | None:
    try:
        outcome: dict[str, Any] = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return outcome


def read_server(directory: Path) -> ServerCounts | None:
    """What the server counted during a job; None where it tells nothing.

    Raises:
        ResultsError: the outcome is damaged or missing.
    """
    path = rank_directories(directory)[0] / OUTCOME_FILE
    try:
        counts = json.loads(path.read_bytes())["server"]
        return None if counts is None else ServerCounts(**counts)
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise ResultsError(f"{path} is damaged, it has no server counts: {error}") from error
