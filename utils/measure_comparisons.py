"""Measure how often ``bucketbench compare`` is wrong, and print a table.

    python utils/measure_comparisons.py multirun/comparisons            # 328 jobs: 20 minutes on two quiet cores
    python utils/measure_comparisons.py multirun/comparisons --report   # of the runs that are there

Runs of a client, and between them runs of the same client made slower. Each slower run is compared with the run before
it; each run of the unchanged client with the two before it of its kind. A comparison that calls the unchanged client
different is wrong, and so is one that does not find the slower one.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from measure_verdicts import sweep

from bucketbench.comparing.changes import Change, Effect, changes_between
from bucketbench.comparing.selection import Side
from bucketbench.report import load_run
from bucketbench.statistics import median

UNCHANGED, SLOWER = "one", "slowed_tenth"


def run_of(directory: Path, client: str, number: int) -> Path:
    """Where a run of a client is."""
    return directory / f"{number:02d}-{client}"


def compared(base: Path, candidate: Path) -> Change:
    """The change of throughput from one run to another, each of one client, whatever the clients are called."""
    sides = []
    for directory in (base, candidate):
        run = load_run(directory)
        sides.append(Side(name=directory.name, run=run, client=run.jobs[0].client))
    (change,) = changes_between(*sides)
    return change


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
            sweep(run_of(arguments.directory, UNCHANGED, number), UNCHANGED, range(arguments.repeats))
            if number < arguments.slower:
                sweep(run_of(arguments.directory, SLOWER, number), SLOWER, range(arguments.repeats))
    unchanged = [run_of(arguments.directory, UNCHANGED, number) for number in numbers]
    same = [
        compared(unchanged[number - distance], unchanged[number])
        for number in numbers
        for distance in (1, 2)
        if distance <= number
    ]
    slower = [
        compared(unchanged[number], run_of(arguments.directory, SLOWER, number))
        for number in numbers[: arguments.slower]
    ]
    print("| the run after against the one before | comparisons | worse | better | median ratio | ratios |")
    print("| :-- | --: | --: | --: | --: | --: |")
    print(described("unchanged", same))
    print(described("10 % slower", slower))
    return 0


if __name__ == "__main__":
    sys.exit(main())
