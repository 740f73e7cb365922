"""Measure how often verdicts are wrong: the tables of docs/results/verdicts.md.

    python utils/measure_verdicts.py multirun/verdicts                  # 600 jobs: 30 minutes on two quiet cores
    python utils/measure_verdicts.py multirun/verdicts --comparisons 10 --slowed 5
    python utils/measure_verdicts.py multirun/verdicts --report         # of the jobs that are there

A client is compared with itself, under two names, and with itself made 15 % slower, all interleaved in sweeps of
``bucketbench run dataset`` as anyone runs them. No repeat is in two comparisons of the same kind, so that these are
independent of each other. A verdict that calls the client different from itself is wrong; at 95 % confidence up to one
in 20 is, and with 6 repeats one in 32.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bucketbench.report import load_run
from bucketbench.scenarios.dataset.figures import FIGURES
from bucketbench.statistics import MINIMUM_REPEATS, Comparison, MeasuredJob, compare, median, summarise

ROOT = Path(__file__).resolve().parent.parent
CLIENTS = ROOT / "utils" / "verdict_measurement"
SCENARIO = "dataset"


def sweep(directory: Path, clients: str, repeats: range) -> None:
    """Measure every client in every repeat; end this program where no sweep could be run."""
    command = [sys.executable, "-m", "bucketbench.cli", "run", SCENARIO, "--config-dir", str(CLIENTS)]
    command += [f"client={clients}", f"repeat=range({repeats.start},{repeats.stop})", "dataloader.num_workers=0"]
    ended = subprocess.run([*command, f"hydra.sweep.dir={directory.absolute()}"], cwd=ROOT, check=False)
    if ended.returncode not in (0, 1):  # 1: a job failed, which the report tells
        sys.exit(ended.returncode)


def comparisons(jobs: Sequence[MeasuredJob], numerator: str, denominator: str, *, repeats: int) -> list[Comparison]:
    """One comparison for each group of consecutive repeats in which both clients have all of them.

    Args:
        jobs: of all repeats.
        numerator: the client that is compared.
        denominator: the client that it is compared with.
        repeats: of one comparison.
    """
    groups: dict[int, list[MeasuredJob]] = {}
    for job in jobs:
        if job.client in (numerator, denominator) and job.failure is None:
            groups.setdefault(job.repeat // repeats, []).append(job)
    found = []
    for _, group in sorted(groups.items()):
        if len(group) == 2 * repeats:
            summaries = {summary.client: summary for summary in summarise(group, units=FIGURES.units)}
            found.append(compare(summaries[numerator], summaries[denominator], figure=FIGURES.contests[0]))
    return found


def described(name: str, found: Sequence[Comparison]) -> str:
    """A line of the table."""
    ratios = [comparison.ratio for comparison in found]
    slower = sum(comparison.decided and comparison.ratio > 1 for comparison in found)
    faster = sum(comparison.decided and comparison.ratio < 1 for comparison in found)
    low, middle, high = min(ratios), median(ratios), max(ratios)
    return f"| {name} | {len(found)} | {slower} | {faster} | {middle:.3f} | {low:.3f} to {high:.3f} |"


def main() -> int:
    """Run the measurement and print its table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path, help="where the sweeps' results go, or are")
    parser.add_argument("--comparisons", type=int, default=40, help="of the client with itself (default: 40)")
    parser.add_argument("--slowed", type=int, default=20, help="of the client with itself made slower (default: 20)")
    parser.add_argument("--repeats", type=int, default=MINIMUM_REPEATS, help="of a comparison (default: %(default)s)")
    parser.add_argument("--report", action="store_true", help="run nothing, report what is there")
    arguments = parser.parse_args()
    if not arguments.report:
        with_slowed = range(arguments.slowed * arguments.repeats)
        sweep(arguments.directory / "three", "one,other,slowed", with_slowed)
        more = range(with_slowed.stop, arguments.comparisons * arguments.repeats)
        if more:
            sweep(arguments.directory / "two", "one,other", more)
    runs = [load_run(directory) for directory in sorted(arguments.directory.iterdir()) if directory.is_dir()]
    jobs = [replace(job, parameters={}) for run in runs for job in run.jobs]
    print(f"{len(jobs)} jobs, {sum(job.failure is not None for job in jobs)} failed, {arguments.repeats} repeats each")
    print("\n| the client against | comparisons | called slower | called faster | median ratio | ratios |")
    print("| :-- | --: | --: | --: | --: | --: |")
    for name, other in (("itself", "other"), ("itself, 15 % slower", "slowed")):
        found = comparisons(jobs, "one", other, repeats=arguments.repeats)
        if found:
            print(described(name, found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
