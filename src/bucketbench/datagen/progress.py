"""How far a data set is: a bar on a terminal, a line now and then anywhere else."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, TextIO

from bucketbench.units import format_bytes

__all__ = ["Progress", "ProgressReport", "progress_on"]

_LINE_INTERVAL_S: Final = 5.0


@dataclass(frozen=True, kw_only=True, slots=True)
class ProgressReport:
    """How much of a data set is there. ``objects_found`` were there before and are not made again."""

    objects_done: int
    objects_total: int
    bytes_done: int
    bytes_total: int
    objects_found: int


Progress = Callable[[ProgressReport], None]


@contextmanager
def progress_on(stream: TextIO | None = None, *, title: str) -> Iterator[Progress]:
    """Show progress on a stream, standard error by default: a bar where it is a terminal, else a line every 5 s.

    The first and the last report always get their line. The reports must come from one thread.
    """
    target = sys.stderr if stream is None else stream
    if target.isatty():
        with _bar(target, title) as show:
            yield show
    else:
        yield _lines(target, title)


def _lines(stream: TextIO, title: str) -> Progress:
    last_s = float("-inf")

    def show(report: ProgressReport) -> None:
        nonlocal last_s
        now_s = time.monotonic()
        if now_s - last_s < _LINE_INTERVAL_S and report.objects_done < report.objects_total:
            return
        last_s = now_s
        found = f", {report.objects_found:,} found" if report.objects_found else ""
        stream.write(
            f"{title}: {report.objects_done:,} of {report.objects_total:,} objects, "
            f"{format_bytes(report.bytes_done)} of {format_bytes(report.bytes_total)}{found}\n"
        )
        stream.flush()

    return show


@contextmanager
def _bar(stream: TextIO, title: str) -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[objects]} objects"),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(file=stream)) as bar:
        task = bar.add_task(title, total=None, objects="0")

        def show(report: ProgressReport) -> None:
            objects = f"{report.objects_done:,}/{report.objects_total:,}"
            bar.update(task, total=report.bytes_total, completed=report.bytes_done, objects=objects)

        yield show
