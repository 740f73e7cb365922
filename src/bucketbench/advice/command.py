"""``bucketbench recommend``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bucketbench.advice.advice import advise
from bucketbench.advice.candidates import questions
from bucketbench.advice.wording import as_json, as_text
from bucketbench.cost.pricing import SAME_REGION, read_pricing
from bucketbench.errors import BucketbenchError
from bucketbench.report.arguments import add_multirun, add_prices
from bucketbench.report.costs import priced
from bucketbench.report.runs import by_scenario, load_run, newest_run
from bucketbench.units import parse_size
from bucketbench.visible import visible

__all__ = ["main"]

EXIT_NO_BASIS: Final = 1
EXIT_REFUSED: Final = 2


def main(argv: Sequence[str]) -> int:
    """Say what to take, of all that a run tried.

    Args:
        argv: the arguments after ``bucketbench recommend``.

    Returns:
        0; 1 where the run is no basis for advice on some figure; 2 where there is no run, and the reason is on standard
        error.
    """
    try:
        arguments = _parser().parse_args(argv)
    except SystemExit as ended:  # argparse has told why
        return ended.code if isinstance(ended.code, int) else EXIT_REFUSED
    try:
        pricing = read_pricing(arguments.prices, route=arguments.route or SAME_REGION)
        run = priced(load_run(arguments.run or newest_run(arguments.multirun)), pricing)
        advices = [
            advise(question)
            for part in by_scenario(run)
            for question in questions(part, memory_limit_bytes=arguments.memory_limit)
        ]
    except (BucketbenchError, OSError) as error:  # of a status of its own: 1 is no basis
        sys.stderr.write(f"bucketbench recommend: {visible(str(error))}\n")
        return EXIT_REFUSED
    if not advices:
        sys.stderr.write(
            f"bucketbench recommend: {visible(str(run.directory))} has no figure by which clients are compared\n"
        )
        return EXIT_NO_BASIS
    if arguments.json:
        text = json.dumps(as_json(advices, currency=pricing.currency, notes=run.notes), indent=2, allow_nan=False)
    else:
        text = as_text(advices, currency=pricing.currency)
    sys.stdout.write(f"{text}\n")
    if not arguments.json:
        sys.stderr.write("".join(f"bucketbench recommend: {note}\n" for note in run.notes))
    return 0 if all(advice.best is not None for advice in advices) else EXIT_NO_BASIS


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bucketbench recommend",
        description="Say in three lines which client and settings to take of all that a run tried, how sure that is, "
        "and what it would cost to be wrong.",
    )
    parser.add_argument(
        "run", nargs="?", type=Path, metavar="RUN", help="the run's directory (default: the newest run)"
    )
    add_multirun(parser)
    parser.add_argument(
        "--memory-limit",
        type=_size,
        metavar="SIZE",
        help="leave out what took more memory, such as 4GiB, of the measured process and its workers together",
    )
    add_prices(parser)
    parser.add_argument("--json", action="store_true", help="print JSON, with all that was compared")
    return parser


def _size(text: str) -> int:
    try:
        return parse_size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
