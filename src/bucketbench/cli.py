"""The ``bucketbench`` command. Each subcommand is imported when it is called, so that ``--help`` answers at once."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from importlib import metadata
from typing import Final

from bucketbench.errors import BucketbenchError, UsageError
from bucketbench.scenarios import scenario_names

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

_RUN_USAGE: Final = """usage: bucketbench run SCENARIO [OVERRIDE...]

Run a sweep of a scenario and print its table. Results land in multirun/SCENARIO/TIME.
Scenarios: {scenarios}; or a package of your own in the directory given by --config-dir.

It is a Hydra program: bucketbench run SCENARIO --help tells the groups and keys, --cfg job shows the configuration,
--info how it is composed, --config-dir DIR adds a directory with configurations, such as DIR/client/mine.yaml.
conf/SCENARIO.yaml and the groups beside it explain every key; see also docs/configuration.md.
Tab completion: eval "$(bucketbench -sc install=bash)"
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
        sys.stdout.write(_USAGE.format(commands=commands, scenarios=", ".join(scenario_names())))
        return 0
    if command == "--version":
        sys.stdout.write(f"bucketbench {metadata.version('torchbucket')}\n")
        return 0
    if command == "run":
        return _run(rest)
    if command in ("-sc", "--shell-completion"):
        return _complete(arguments)
    if command in _COMMANDS:
        module = importlib.import_module(_COMMANDS[command][0])
        status: int = module.main(rest)
        return status
    raise UsageError(f"there is no command {command!r}; the commands are: run, {', '.join(_COMMANDS)}")


def _run(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        sys.stdout.write(_RUN_USAGE.format(scenarios=", ".join(scenario_names())))
        return 0 if arguments else EXIT_USAGE
    from bucketbench.sweep.entry import run_scenario

    return run_scenario(arguments[0], arguments[1:])


def _complete(arguments: list[str]) -> int:
    """Answer a shell that completes ``bucketbench run SCENARIO …``, or install that, as every Hydra program does."""
    words = os.environ.get("COMP_LINE", "").split()
    from bucketbench.sweep.entry import run_scenario

    return run_scenario(words[2] if words[1:2] == ["run"] and len(words) > 2 else scenario_names()[0], arguments)


if __name__ == "__main__":
    sys.exit(main())
