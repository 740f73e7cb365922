"""``bucketbench report``: prints what runs found, and writes it to files."""

from __future__ import annotations

import argparse
import io
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from bucketbench.cost.pricing import SAME_REGION, read_pricing
from bucketbench.errors import BucketbenchError
from bucketbench.report.arguments import add_multirun, add_prices
from bucketbench.report.costs import priced
from bucketbench.report.derivation import derive_again
from bucketbench.report.exports import write_csv, write_parquet
from bucketbench.report.markdown import escaped, render_markdown
from bucketbench.report.rows import json_rows
from bucketbench.report.runs import Run, by_scenario, load_run, newest_run
from bucketbench.report.table import print_report
from bucketbench.visible import visible

__all__ = ["main"]


def main(argv: Sequence[str]) -> int:
    """Run the command.

    Args:
        argv: the arguments after ``bucketbench report``.

    Returns:
        0 where the report was printed, 2 where there is none to print; the reason is then on standard error.
    """
    try:
        arguments = _parser().parse_intermixed_args(argv)
    except SystemExit as ended:  # argparse has told why
        return ended.code if isinstance(ended.code, int) else 2
    try:
        if isinstance(sys.stdout, io.TextIOWrapper):  # "±" must not end the report where the locale has no such sign
            sys.stdout.reconfigure(errors="replace")
        if arguments.config_dir is not None:
            sys.path.append(str(arguments.config_dir.absolute()))
        runs = [load_run(path) for path in arguments.runs or [newest_run(arguments.multirun)]]
        if arguments.recompute:
            runs = [derive_again(run) for run in runs]
        pricing = read_pricing(arguments.prices, route=arguments.route or SAME_REGION)
        with_costs = [priced(run, pricing) for run in runs]
        _write(with_costs, arguments)
        is_asked = bool(arguments.prices or arguments.route or arguments.form != "text")
        shown = with_costs if is_asked else runs
        _print([part for run in shown for part in by_scenario(run)], form=arguments.form)
    except BucketbenchError as error:
        sys.stderr.write(f"bucketbench report: {visible(str(error))}\n")
        return 2
    return 0


def _write(runs: Sequence[Run], arguments: argparse.Namespace) -> None:
    """Write the files that were asked for, each whole or not at all."""
    parts = [part for run in runs for part in by_scenario(run)]
    if arguments.html is not None:
        from bucketbench.report.html import write_html

        write_html(runs, arguments.html)
    if arguments.csv is not None:
        write_csv(parts, arguments.csv)
    if arguments.parquet is not None:
        write_parquet(parts, arguments.parquet)


def _print(runs: Sequence[Run], *, form: str) -> None:
    """Print each run, of one scenario each, one below the other; JSON is one list of all rows."""
    if form == "json":
        sys.stdout.write(json.dumps([row for run in runs for row in json_rows(run)], indent=2) + "\n")
        return
    for number, run in enumerate(runs):
        if number:
            sys.stdout.write("\n")
        if form == "markdown":
            # Alone, the tables are for a page that says what they are.
            title = (
                f"### {escaped(run.name)}{'' if run.disambiguator is None else f' ({escaped(run.disambiguator)})'}\n\n"
            )
            sys.stdout.write(title * (len(runs) > 1) + render_markdown(run))
        else:
            print_report(run)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bucketbench report",
        description="Print the tables of runs, and which client won by what margin, from the runs' files alone.",
    )
    parser.add_argument(
        "runs",
        nargs="*",
        type=Path,
        metavar="RUN",
        help="directory of a run, or its run_results.json; several are printed one below the other (default: the "
        "newest run)",
    )
    add_multirun(parser)
    parser.add_argument(
        "--recompute",
        action="store_true",
        help="derive the figures again from the raw records beside the results, by the definitions of this version",
    )
    parser.add_argument(
        "--config-dir",
        type=Path,
        metavar="DIR",
        help="the directory with a scenario of your own, as bucketbench run takes it",
    )
    parser.add_argument(
        "--html", type=Path, metavar="FILE", help="also write a page with charts, which opens without a network"
    )
    parser.add_argument("--csv", type=Path, metavar="FILE", help="also write every job as a line of CSV")
    parser.add_argument(
        "--parquet", type=Path, metavar="FILE", help="also write every job as a row of Parquet, which pandas reads"
    )
    add_prices(parser)
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "--json",
        dest="form",
        action="store_const",
        const="json",
        help="print a JSON list, one object a client and parameter set",
    )
    form.add_argument("--markdown", dest="form", action="store_const", const="markdown", help="print Markdown")
    parser.set_defaults(form="text")
    return parser
