"""``bucketbench resume``: goes on with a sweep that was interrupted, in the same directory."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

__all__ = ["main"]


def main(argv: Sequence[str]) -> int:
    """Run the command.

    Args:
        argv: the arguments after ``bucketbench resume``.

    Returns:
        The exit status, as that of ``bucketbench run``.

    Raises:
        UsageError: it was refused, and nothing was run.
        ResultsError: there is no such run, or its files are damaged.
    """
    arguments = _parser().parse_args(argv)
    from bucketbench.cluster.meeting import leave
    from bucketbench.sweep.resuming import resume

    status = 1
    try:
        status = resume(arguments.run, failed=arguments.failed, despite_changes=arguments.despite_changes)
    finally:
        leave(status)  # so that the other nodes, where there are some, end like this one
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bucketbench resume",
        description="Run the jobs of a sweep that are missing or were interrupted, with the configuration that it "
        "recorded, and add their results to it.",
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="the run's directory, such as multirun/dataset/TIME")
    parser.add_argument("--failed", action="store_true", help="run the jobs that failed again, too")
    parser.add_argument(
        "--despite-changes",
        action="store_true",
        help="go on though the commit, the versions or the machine are not those with which the run was begun",
    )
    return parser
