"""Measure how often ``bucketbench compare`` is wrong, and print a table.

    python utils/measure_comparisons.py multirun/comparisons            # 672 jobs: an hour on two quiet cores
    python utils/measure_comparisons.py multirun/comparisons --report   # of the runs that are there

Runs of a client, and between them runs of the same client made slower. Each slower run is compared with the run before
it; each run of the unchanged client with the two before it of its kind. A comparison that calls the unchanged client
different is wrong, and so is one that does not find the slower one. Each run has a second client, which never changes:
the comparisons are made with its help (``--relative-to``) and without.

The delays cost the slower client more than the tenth of its time that they are, since nothing arrives during them. So a
last line has its throughputs all multiplied by one number, with which their median is nine tenths of the other's.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from measure_verdicts import sweep

from bucketbench.comparing.changes import Change, Effect, changes_between
from bucketbench.comparing.selection import Side
from bucketbench.records import Figure
from bucketbench.report import Run, load_run
from bucketbench.statistics import MeasuredJob, median

UNCHANGED, SLOWER, REFERENCE = "one", "slowed_tenth", "other"
PLANTED = 0.9
FIGURE = "throughput_mibs"


def run_of(directory: Path, client: str, number: int) -> Path:
    """Where a run of a client is."""
    return directory / f"{number:02d}-{client}"


def compared(base: Path, candidate: Path, *, relative_to: str | None, times: float = 1.0) -> Change:
    """The change of throughput from one run to another, of the client that a run was made for.

    Args:
        base: the first run.
        candidate: the second.
        relative_to: as of ``changes_between``.
        times: what the second run's client's throughput is multiplied by.
    """
    sides = [
        Side(name=directory.name, run=load_run(directory), client=directory.name.partition("-")[2])
        for directory in (base, candidate)
    ]
    sides[1] = replace(sides[1], run=multiplied(sides[1].run, str(sides[1].client), times))
    (change,) = changes_between(*sides, relative_to=relative_to)
    return change


def multiplied(run: Run, client: str, times: float) -> Run:
    """The run with the throughputs of a client multiplied."""

    def job(one: MeasuredJob) -> MeasuredJob:
        figure = one.figures[FIGURE]
        if one.client != client or figure.value is None:
            return one
        return replace(one, figures={**one.figures, FIGURE: Figure(unit=figure.unit, value=times * figure.value)})

    return replace(run, jobs=tuple(job(one) for one in run.jobs))


def described(name: str, changes: Sequence[Change]) -> str:
    """A line of the table."""
    ratios = [change.ratio for change in changes if change.ratio is not None]
    counts = [sum(change.effect is effect for change in changes) for effect in (Effect.WORSE, Effect.BETTER)]
    return (
        f"| {name} | {len(changes)} | {counts[0]} | {counts[1]} | {median(ratios):.3f} | "
        f"{min(ratios):.3f} to {max(ratios):.3f} |"
    )


def main() -> int:
    """Run the measurement and print its table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path, help="where the runs' results go, or are")
    parser.add_argument("--slower", type=int, default=20, help="comparisons with the slower client (default: 20)")
    parser.add_argument("--repeats", type=int, default=8, help="of a run (default: %(default)s)")
    parser.add_argument("--report", action="store_true", help="run nothing, report what is there")
    arguments = parser.parse_args()
    numbers = range(arguments.slower + 2)  # so that as many lie two after another, and one more lies one after another
    if not arguments.report:
        for number in numbers:
            for client in (UNCHANGED, SLOWER)[: 2 if number < arguments.slower else 1]:
                clients = f"{client},{REFERENCE}"
                sweep(run_of(arguments.directory, client, number), clients, range(arguments.repeats))
    unchanged = [run_of(arguments.directory, UNCHANGED, number) for number in numbers]
    slower = [run_of(arguments.directory, SLOWER, number) for number in numbers[: arguments.slower]]
    print("| the run after against the one before | comparisons | worse | better | median ratio | ratios |")
    print("| :-- | --: | --: | --: | --: | --: |")
    for relative_to in (None, REFERENCE):
        same = [
            compared(unchanged[number - distance], unchanged[number], relative_to=relative_to)
            for number in numbers
            for distance in (1, 2)
            if distance <= number
        ]
        pairs = list(zip(unchanged, slower, strict=False))  # the last two have no slower one after them
        changed = [compared(before, after, relative_to=relative_to) for before, after in pairs]
        times = PLANTED / median([change.ratio for change in changed if change.ratio is not None])
        exact = [compared(before, after, relative_to=relative_to, times=times) for before, after in pairs]
        option = f" (`--relative-to {relative_to}`)" if relative_to else ""
        print(described(f"unchanged{option}", same))
        print(described(f"delayed by a tenth{option}", changed))
        print(described(f"likewise, times {times:.3f}: 10 % slower{option}", exact))
    return 0


if __name__ == "__main__":
    sys.exit(main())
