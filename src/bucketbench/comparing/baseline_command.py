"""``bucketbench baseline``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from bucketbench.comparing.places import add_places
from bucketbench.comparing.selection import baselines, keep_baseline
from bucketbench.errors import BucketbenchError
from bucketbench.report.runs import load_run, newest_run
from bucketbench.visible import visible

__all__ = ["main"]


def main(argv: Sequence[str]) -> int:
    """Keep a run's results under a name, or list the names.

    Args:
        argv: the arguments after ``bucketbench baseline``.

    Returns:
        0, or 2 where it was refused.
    """
    parser = argparse.ArgumentParser(
        prog="bucketbench baseline",
        description="Keep the results of a run under a name, for bucketbench compare; without a name, list those kept.",
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="letters, digits and ._-")
    parser.add_argument(
        "run", nargs="?", type=Path, metavar="RUN", help="the run's directory (default: the newest run)"
    )
    parser.add_argument("--replace", action="store_true", help="take the place of a baseline of that name")
    add_places(parser)
    try:
        arguments = parser.parse_args(argv)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 2
    if arguments.name is None:
        sys.stdout.write("".join(f"{visible(name)}\n" for name in baselines(arguments.baselines)))
        return 0
    try:
        run = arguments.run or newest_run(arguments.multirun)
        kept = keep_baseline(arguments.name, run, arguments.baselines, replace=arguments.replace)
    except BucketbenchError as error:
        sys.stderr.write(f"bucketbench baseline: {visible(str(error))}\n")
        return 2
    sys.stdout.write(f"{visible(str(run))} is kept as {visible(str(kept))}\n")
    sys.stderr.write("".join(f"bucketbench baseline: {note}\n" for note in load_run(kept).notes))
    return 0
