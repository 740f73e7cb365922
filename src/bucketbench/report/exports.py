"""The jobs of runs as one flat table for other programs: CSV, or Parquet with types."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bucketbench.errors import UsageError
from bucketbench.extras import installation
from bucketbench.report.runs import Run
from bucketbench.results.files import write_whole
from bucketbench.results.job import JobResult, digest

__all__ = ["job_rows", "write_csv", "write_parquet"]


def job_rows(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """One row a job, failed ones among them; every row has the same names, in the same order.

    A figure stands under its own name, in the unit that the name tells; where it has no value that is None, and
    ``<figure>_reason`` says why. Parameters, options of the client and details are prefixed by what they are. Lists and
    objects are JSON. ``experiment`` and ``client_configuration`` are digests: rows that are equal in both were measured
    alike.
    """
    rows = [_row(run, index) for run in runs for index in range(len(run.jobs))]
    names = dict.fromkeys(name for row in rows for name in row)
    # A figure's reason stands beside it, also where only a later job has one.
    reasons = {f"{name}_reason" for name in names} & names.keys()
    ordered = [part for name in names if name not in reasons for part in (name, f"{name}_reason") if part in names]
    return [{name: row.get(name) for name in ordered} for row in rows]


def write_csv(runs: Sequence[Run], path: Path) -> None:
    """Write ``job_rows`` as CSV in UTF-8: a heading, and an empty field for what is not there.

    Raises:
        ResultsError: the file could not be written.
    """
    rows = job_rows(runs)
    with write_whole(path) as unfinished, unfinished.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows({name: _text(value) for name, value in row.items()} for row in rows)


def write_parquet(runs: Sequence[Run], path: Path) -> None:
    """Write ``job_rows`` as Parquet, which pandas, Polars and DuckDB read with its types.

    A column has one type. Where a parameter is a number in one job and a word in another, it is text.

    Raises:
        UsageError: pyarrow is not installed.
        ResultsError: the file could not be written.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise UsageError(f"--parquet needs pyarrow, which is not installed: {installation('parquet')}") from error
    rows = job_rows(runs)
    table = pyarrow.table({name: _column([row[name] for row in rows]) for name in rows[0]})
    with write_whole(path) as unfinished:
        pyarrow.parquet.write_table(table, unfinished)


def _row(run: Run, index: int) -> dict[str, Any]:
    job, result = run.jobs[index], run.results[index]
    row: dict[str, Any] = {
        "run": run.name,
        "scenario": result.scenario,
        "number": result.number,
        "client": result.client,
        "contestant": job.client,
        "role": str(job.role),
        "library": job.library,
        "repeat": result.repeat,
        "label": run.label,
        "disambiguator": result.disambiguator,
        "status": result.status,
        "reason": job.failure,
        **_validity(result),
        "started_at": result.started_at,
        "commit": result.commit,
        "experiment": digest(result.parameters),
        "client_configuration": digest(result.client_options),
    }
    for prefix, values in (
        ("parameters", result.parameters),
        ("client_options", result.client_options),
        ("details", result.details),
        ("host", result.host),
        ("versions", result.versions),
    ):
        row |= {f"{prefix}.{name}": _flat(value) for name, value in values.items()}
    for name, figure in result.figures.items():
        row[name] = figure.value
        if figure.reason is not None:
            row[f"{name}_reason"] = figure.reason
    return row


def _validity(result: JobResult) -> dict[str, Any]:
    """Whether the figures are valid, which rules were broken, and which not applied; None where nothing was judged."""
    if result.validity is None:
        return dict.fromkeys(("validity", "validity_reason", "validity_unchecked"))
    broken = "; ".join(f"{mark.state} ({mark.rule}): {mark.reason}" for mark in result.validity.marks)
    unchecked = "; ".join(f"{rule}: {reason}" for rule, reason in result.validity.unchecked.items())
    return {
        "validity": str(result.validity.state),
        "validity_reason": broken or None,
        "validity_unchecked": unchecked or None,
    }


def _flat(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, list | dict) else value


def _text(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value


def _kind(value: Any) -> type:
    """The type of a value; that of a number too large for a column of numbers is none of them."""
    return object if isinstance(value, int) and abs(value) >= 2**63 else type(value)


def _column(values: Sequence[Any]) -> list[Any]:
    """Values of one type; whole numbers and others together are numbers, all other mixtures text."""
    kinds = {_kind(value) for value in values if value is not None}
    if kinds == {int, float}:
        return [None if value is None else float(value) for value in values]
    if len(kinds) > 1 or kinds == {object}:
        return [None if value is None else str(_text(value)) for value in values]
    return list(values)
