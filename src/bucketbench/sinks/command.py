"""``bucketbench push``: sends runs to a sink, now or again."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from bucketbench.errors import BucketbenchError, UsageError
from bucketbench.sinks.delivery import deliver
from bucketbench.sinks.overrides import sink_of_run
from bucketbench.visible import visible

__all__ = ["main"]

_OVERRIDES = ("sink=", "sink.", "+sink.", "++sink.")


def main(argv: Sequence[str]) -> int:
    """Run the command.

    Args:
        argv: the arguments after ``bucketbench push``.

    Returns:
        0 where every run is in its sink; 1 where one is not, which is told, and the others were sent all the same; 2
        for a mistake in what was asked for.
    """
    parser = _parser()
    try:
        arguments = parser.parse_intermixed_args(argv)
        if arguments.config_dir is not None:
            sys.path.append(str(arguments.config_dir.absolute()))
        runs = [Path(word) for word in arguments.words if not word.startswith(_OVERRIDES)]
        if not runs:
            parser.error("name the directory of a run, such as multirun/dataset/2026-11-27_22-34-19")
    except SystemExit as ended:  # argparse has told why
        return ended.code if isinstance(ended.code, int) else 2
    overrides = [word for word in arguments.words if word.startswith(_OVERRIDES)]
    status = 0
    for run in runs:
        try:
            sink = sink_of_run(run, overrides, config_directory=arguments.config_dir)
            sys.stdout.write("".join(f"{visible(line)}\n" for line in deliver(sink, run)))
            sys.stdout.flush()
        except BucketbenchError as error:
            sys.stderr.write(f"bucketbench push: {visible(f'{run}: {error}')}\n")
            status = max(status, 2 if isinstance(error, UsageError) else 1)
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bucketbench push",
        usage="bucketbench push RUN... [sink=NAME] [sink.KEY=VALUE...] [--config-dir DIR]",
        description="Send runs to the sink that they were configured with, or to another one. A run that the sink has "
        "already is replaced by what its files say now. Runs are never changed.",
        epilog="docs/sinks.md explains the sinks and their keys, and how to get runs back.",
    )
    parser.add_argument(
        "words",
        nargs="*",
        metavar="RUN",
        help="directory of a run, or its run_results.json; and overrides of the group sink: sink=dynamodb "
        "sink.table=bucketbench",
    )
    parser.add_argument(
        "--config-dir",
        type=Path,
        metavar="DIR",
        help="the directory with a sink of your own in DIR/sink, as bucketbench run takes it",
    )
    return parser
