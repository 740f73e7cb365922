"""The end of a sweep: its results gathered, and its table printed."""

from __future__ import annotations

import sys
from pathlib import Path

from bucketbench.errors import ResultsError
from bucketbench.progress import say
from bucketbench.results.record import RunRecord
from bucketbench.streams import redirect_to_devnull

__all__ = ["finish"]


def finish(directory: Path) -> int:
    """Write ``run_results.json`` of the sweep in a directory, and print its table.

    Returns:
        The program's exit status: 0, or 1 where a job failed.

    Raises:
        ResultsError: the results could not be written.
    """
    record = RunRecord.read(directory)
    if record is None:
        raise ResultsError(f"{directory} has no record of a sweep")
    jobs = record.write_results(ended=True)["jobs"]
    _print_report(directory)
    failed = len(jobs) != record.jobs_planned or any(job["status"] != "ok" for job in jobs)
    return 1 if failed else 0


def _print_report(directory: Path) -> None:
    from bucketbench.report import load_run
    from bucketbench.report.table import print_report

    try:
        run = load_run(directory)
    except ResultsError as error:
        say(f"no table: {error}")  # interrupted before the first job was over
        return
    try:
        print_report(run)
        sys.stdout.flush()
    except BrokenPipeError:
        redirect_to_devnull(sys.stdout)  # the reader, such as head, has seen enough
