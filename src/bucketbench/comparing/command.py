"""``bucketbench compare``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Final

from bucketbench.comparing.changes import NOISE_THRESHOLD, changes_between
from bucketbench.comparing.places import add_places
from bucketbench.comparing.selection import select
from bucketbench.comparing.wording import as_json, as_markdown, as_text, headline
from bucketbench.errors import BucketbenchError
from bucketbench.report.arguments import add_form, add_relative_to, names_in
from bucketbench.report.runs import newest_run
from bucketbench.report.table import output_width
from bucketbench.visible import visible

__all__ = ["main"]

EXIT_REGRESSION: Final = 1
EXIT_REFUSED: Final = 2


def main(argv: Sequence[str]) -> int:
    """Compare two runs.

    Args:
        argv: the arguments after ``bucketbench compare``.

    Returns:
        0; 1 where something became worse by as much as ``--fail-on-regression`` says; 2 where the runs cannot be
        compared, or that option is given and nothing can be told; the reason is on standard error.
    """
    try:
        arguments = _parser().parse_args(argv)
    except SystemExit as ended:  # argparse has told why
        return ended.code if isinstance(ended.code, int) else EXIT_REFUSED
    allowed = names_in(arguments.allow)
    try:
        base = select(arguments.base, arguments.baselines)
        candidate = select(arguments.candidate or str(newest_run(arguments.multirun)), arguments.baselines)
        changes = changes_between(
            base,
            candidate,
            figures=names_in(arguments.figure),
            allowed=allowed,
            relative_to=arguments.relative_to,
            noise_threshold=arguments.noise_threshold,
        )
    except (BucketbenchError, OSError) as error:  # of a status of its own: 1 is a regression
        sys.stderr.write(f"bucketbench compare: {visible(str(error))}\n")
        return EXIT_REFUSED
    if arguments.form == "json":
        text = json.dumps(as_json(base, candidate, changes, allowed=allowed), indent=2, allow_nan=False)
    elif arguments.form == "markdown":
        text = as_markdown(base, candidate, changes, allowed=allowed)
    else:
        told = headline(base, candidate, changes, allowed=allowed)
        text = "\n".join([*told, as_text(changes, width=output_width())])
    sys.stdout.write(f"{text}\n")
    share = arguments.fail_on_regression
    worse = [] if share is None else [change for change in changes if change.is_regression(share)]
    for change in worse:
        sys.stderr.write(f"bucketbench compare: {change.client} has become worse: {change.figure}\n")
    if worse:
        return EXIT_REGRESSION
    if share is not None and all(change.interval is None for change in changes):
        sys.stderr.write("bucketbench compare: no regression could have been told: no figure has an interval\n")
        return EXIT_REFUSED
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bucketbench compare",
        description="Say what became better or worse from one run to another, and how surely. A side is a run's "
        "directory, its run_results.json or a baseline's name, and RUN@CLIENT one client of it.",
    )
    parser.add_argument("base", metavar="BASE", help="what is compared with")
    parser.add_argument("candidate", nargs="?", metavar="CANDIDATE", help="what is compared (default: the newest run)")
    parser.add_argument(
        "--figure",
        action="append",
        default=[],
        metavar="NAME[,NAME]",
        help="figures to compare (default: those by which the scenario compares clients)",
    )
    parser.add_argument(
        "--allow",
        action="append",
        default=[],
        metavar="KEY[,KEY]",
        help="what may differ between the runs: parameters, such as network, client.options for how clients were set "
        "up, host for machines of two classes, and invalid for figures that broke a rule of a valid measurement",
    )
    add_relative_to(parser)
    parser.add_argument(
        "--noise-threshold",
        type=_share,
        default=NOISE_THRESHOLD,
        metavar="PERCENT",
        help="by how much runs of the same thing may differ: an interval must lie beyond it to be a change (default: "
        f"{NOISE_THRESHOLD * 100:g}%%)",
    )
    parser.add_argument(
        "--fail-on-regression",
        type=_share,
        metavar="PERCENT",
        help="exit with status 1 where a figure is surely worse by at least so much, such as 10%%, or a client fails",
    )
    add_places(parser)
    add_form(parser)
    return parser


def _share(text: str) -> float:
    try:
        share = float(text.removesuffix("%")) / 100
    except ValueError:
        share = -1.0
    if not 0 <= share < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no share: a number from 0 to below 100, such as 10%")
    return share
