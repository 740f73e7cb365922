"""The raw records that a job's measured processes left, of all its ranks."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from bucketbench.errors import ResultsError
from bucketbench.job.description import OPERATIONS_FILE, OUTCOME_FILE, USAGE_FILE, rank_directories
from bucketbench.records import Operation, UsageSample
from bucketbench.statistics import ServerCounts

__all__ = ["RawRecords", "read_outcome", "read_raw", "read_server"]

_T = TypeVar("_T")

RawRecords = tuple[list[Operation], list[UsageSample]]
"""Operations and usage samples."""


def read_raw(directory: Path, *, ended: bool) -> RawRecords:
    """The operations and usage samples of a job, those of rank 0 first.

    Args:
        directory: the job's.
        ended: whether the measured processes came to their end. One that was killed may have left no file, or the last
            line of one cut off.

    Raises:
        ResultsError: a file is damaged, or missing though the job has ended; the message names it.
    """
    operations: list[Operation] = []
    usage: list[UsageSample] = []
    for rank, folder in enumerate(rank_directories(directory)):
        operations += _records(folder / OPERATIONS_FILE, Operation.from_json, ended=ended)
        usage += (replace(u, rank=rank) for u in _records(folder / USAGE_FILE, UsageSample.from_json, ended=ended))
    return operations, usage


def _records(path: Path, parse: Callable[[dict[str, Any]], _T], *, ended: bool) -> Iterator[_T]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        if isinstance(error, FileNotFoundError) and not ended:
            return
        raise ResultsError(f"{path} cannot be read: {error}") from error
    for number, line in enumerate(lines, start=1):
        try:
            yield parse(json.loads(line))
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            if number == len(lines) and not ended:
                return
            raise ResultsError(f"{path} is damaged in line {number}, which is no record: {error}") from error


def read_outcome(directory: Path, *, otherwise: str) -> dict[str, Any]:
    """What the measured processes concluded: rank 0 speaks for all, unless one of the others failed.

    Args:
        directory: the job's.
        otherwise: the reason of the failure where a rank left no outcome that can be read.
    """
    folders = rank_directories(directory)
    outcomes = [_outcome(folder / OUTCOME_FILE) for folder in folders]
    failures = [
        (f"rank {rank}: {outcome['reason']}" if len(folders) > 1 else outcome["reason"])
        for rank, outcome in enumerate(outcomes)
        if outcome is not None and outcome["status"] != "ok"
    ]
    first = outcomes[0]
    if first is None or None in outcomes or failures:
        empty: dict[str, Any] = {"verification": None, "server": None, "details": {}, "versions": {}}
        return {**empty, **(first or {}), "status": "failed", "reason": "; ".join(failures) or otherwise}
    return first


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
