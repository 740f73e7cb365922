"""The end of a sweep: its results gathered, its table printed, and its page written."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bucketbench.errors import BucketbenchError, ResultsError
from bucketbench.interruption import can_be_cut_short
from bucketbench.progress import say
from bucketbench.results.files import read_job_results
from bucketbench.results.record import RunRecord
from bucketbench.streams import redirect_to_devnull

if TYPE_CHECKING:
    from bucketbench.report import Run

__all__ = ["INTERRUPTED_STATUS", "PAGE_FILE", "finish"]

INTERRUPTED_STATUS: Final = 130
"""The exit status of what was interrupted, as shells have it: 128 and the number of SIGINT."""

PAGE_FILE: Final = "report.html"


def finish(directory: Path, *, html: bool) -> int:
    """Write ``run_results.json`` of the sweep in a directory, print its table, and write its page.

    Args:
        directory: the sweep's.
        html: whether ``report.html`` is written beside the results, where what draws it is installed. That it could not
            be is told, and costs neither the results nor the status.

    Returns:
        The program's exit status: 0, or 1 where a job failed.

    Raises:
        ResultsError: the results could not be written.
    """
    record = RunRecord.read(directory)
    if record is None:
        raise ResultsError(f"{directory} has no record of a sweep")
    if record.interrupted and not read_job_results(directory):
        say("no job had begun")  # and nothing is there that a report could take for a run
        return 1
    jobs = record.write_results(ended=True)["jobs"]
    with can_be_cut_short():
        _report(directory, html=html)
    failed = len(jobs) != record.jobs_planned or any(job["status"] != "ok" for job in jobs)
    return 1 if failed else 0


def _report(directory: Path, *, html: bool) -> None:
    from bucketbench.report import load_run

    try:
        run = load_run(directory)
    except ResultsError as error:
        say(f"no table: {error}")  # interrupted before the first job was over
        return
    _print_table(run)
    if html:
        _write_page(run)


def _print_table(run: Run) -> None:
    from bucketbench.report.table import print_report

    try:
        print_report(run)
        sys.stdout.flush()
    except OSError:
        redirect_to_devnull(sys.stdout)  # the reader, such as head, has seen enough, or the terminal is gone


def _write_page(run: Run) -> None:
    from bucketbench.cost.pricing import read_pricing
    from bucketbench.report.costs import priced
    from bucketbench.report.html import write_html

    page = run.directory / PAGE_FILE
    try:
        write_html([priced(run, read_pricing())], page)
    except BucketbenchError as error:
        say(f"no {PAGE_FILE}: {error}")
        return
    say(f"charts: {page}")
