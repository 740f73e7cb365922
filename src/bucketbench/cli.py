"""The ``bucketbench`` command. Each subcommand is imported when it is called, so that ``--help`` answers at once."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Final

from bucketbench.errors import BucketbenchError, UsageError
from bucketbench.scenarios import SCENARIOS

__all__ = ["main"]

EXIT_USAGE: Final = 2
EXIT_ERROR: Final = 1

TRACEBACK_VARIABLE: Final = "BUCKETBENCH_TRACEBACK"
"""Set it to 1 to see where an error was raised."""

_COMMANDS: Final = {
    "testbed": ("buckettestbed.command", "serve a stand-in for S3 and GCS with a network model, by hand"),
    "datagen": ("bucketbench.datagen.command", "make a data set of images, in a bucket or a directory"),
    "report": ("bucketbench.report.command", "print the tables of runs again, from their files"),
}

_USAGE: Final = """usage: bucketbench COMMAND [ARGUMENTS]

commands:
  run SCENARIO [OVERRIDE...]  benchmark clients and print who is faster (scenarios: {scenarios})
{commands}

options:
  -h, --help                  show this; after a command, what that command takes
  --version                   show the version

A Hydra override is KEY=VALUE, or KEY=A,B to sweep: bucketbench run dataset client=boto3,torchbucket-map epochs=1
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        argv: the arguments after the program's name; ``sys.argv`` when None.

    Returns:
        The exit status: 0; 1 when a job failed or the results could not be written; 2 for a mistake in what was asked
        for, with one message on stderr; 130 after an interruption.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        return _dispatch(arguments)
    except BucketbenchError as error:
        if os.environ.get(TRACEBACK_VARIABLE) == "1":
            raise
        sys.stderr.write(f"bucketbench: {error}\n")
        return EXIT_USAGE if isinstance(error, UsageError) else EXIT_ERROR
    except KeyboardInterrupt:
        sys.stderr.write("bucketbench: interrupted\n")
        return 130
    except SystemExit as exit_request:  # argparse, for --help and for wrong arguments
        return exit_request.code if isinstance(exit_request.code, int) else EXIT_USAGE


def _dispatch(arguments: list[str]) -> int:
    command, rest = (arguments[0], arguments[1:]) if arguments else ("--help", [])
    if command in ("-h", "--help", "help"):
        commands = "\n".join(f"  {name:<26}  {text}" for name, (_, text) in _COMMANDS.items())
        sys.stdout.write(_USAGE.format(commands=commands, scenarios=", ".join(SCENARIOS)))
        return 0
    if command == "--version":
        sys.stdout.write(f"bucketbench {metadata.version('torchbucket')}\n")
        return 0
    if command == "run":
        return _run(rest)
    if command in _COMMANDS:
        module = importlib.import_module(_COMMANDS[command][0])
        status: int = module.main(rest)
        return status
    raise UsageError(f"there is no command {command!r}; the commands are: run, {', '.join(_COMMANDS)}")


def _run(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="bucketbench run",
        description="Run a sweep of a scenario and print its table. Results land in multirun/SCENARIO/TIME.",
        epilog="conf/SCENARIO.yaml and the groups beside it explain every key; see also docs/configuration.md",
    )
    parser.add_argument("scenario", help=f"name of the scenario: {', '.join(SCENARIOS)}")
    parser.add_argument("overrides", nargs="*", metavar="OVERRIDE", help="KEY=VALUE, or KEY=A,B,C to sweep")
    parser.add_argument(
        "--config-dir",
        action="append",
        default=[],
        type=Path,
        metavar="DIR",
        help="a directory with further configurations, such as DIR/client/mine.yaml; may be repeated",
    )
    parser.add_argument("-m", "--multirun", action="store_true", help="as in Hydra; every run is one here")
    parsed = parser.parse_intermixed_args(arguments)

    from bucketbench.configuration.directory import checked_config_directories
    from bucketbench.sweep.entry import run_sweep

    directories = checked_config_directories(parsed.config_dir)
    return run_sweep(parsed.scenario, parsed.overrides, config_directories=directories)


if __name__ == "__main__":
    sys.exit(main())
