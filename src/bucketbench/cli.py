"""The ``bucketbench`` command. Each subcommand is imported when it is called, so that ``--help`` answers at once."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Sequence
from importlib import metadata
from typing import Final

from bucketbench.errors import BucketbenchError, UsageError
from bucketbench.extras import missing_extra
from bucketbench.scenarios import scenario_names
from bucketbench.streams import output_that_may_end
from bucketbench.visible import visible

__all__ = ["datagen", "main"]

EXIT_USAGE: Final = 2
EXIT_ERROR: Final = 1

TRACEBACK_VARIABLE: Final = "BUCKETBENCH_TRACEBACK"
"""Set it to 1 to see where an error was raised."""

_COMMANDS: Final = {
    "init": ("bucketbench.workspace.command", "write conf/ and the run scripts into a folder, to benchmark there"),
    "testbed": ("buckettestbed.command", "serve a stand-in for S3 and GCS with a network model, by hand"),
    "datagen": ("bucketbench.datagen.command", "make a data set of images, in a bucket or a directory"),
    "resume": ("bucketbench.sweep.resume_command", "go on with a run that was interrupted"),
    "report": ("bucketbench.report.command", "print the tables of runs again, from their files"),
    "scale": ("bucketbench.scale.command", "work out what a scenario asks of a service with thousands of ranks"),
    "compare": ("bucketbench.comparing.command", "say what became better or worse from one run to another"),
    "baseline": ("bucketbench.comparing.baseline_command", "keep the results of a run under a name, to compare with"),
    "recommend": ("bucketbench.advice.command", "say which client and settings to take of all that a run tried"),
    "history": ("bucketbench.history.command", "tell how figures went over many runs, and which run changed them"),
    "push": ("bucketbench.sinks.command", "send runs to a sink, such as a table of DynamoDB or BigQuery"),
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
--info how it is composed, --dry-run the jobs and how long they may take, --config-dir DIR adds a directory with
configurations, such as DIR/client/mine.yaml.
conf/SCENARIO.yaml and the groups beside it explain every key; see also docs/configuration.md.
Tab completion: eval "$(bucketbench -sc install=bash)"
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        argv: the arguments after the program's name; ``sys.argv`` when None.

    Returns:
        The exit status: 0; 1 when a job failed or the results could not be written; 2 for a mistake in what was asked
        for, with one message on stderr; 3 when all went well but the sink does not have the results; 130 after an
        interruption.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    status = 0
    try:
        # A testbed ends where nobody learns where it serves.
        with contextlib.nullcontext() if arguments[:1] == ["testbed"] else output_that_may_end():
            status = _told(arguments)
    except OSError as error:
        sys.stderr.write(f"bucketbench: standard output: {error.strerror or error}\n")
        status = status or EXIT_ERROR
    return status


def _told(arguments: list[str]) -> int:
    """The exit status of a command; a failure is told in one message."""
    try:
        return _dispatch(arguments)
    except BucketbenchError as error:
        if os.environ.get(TRACEBACK_VARIABLE) == "1":
            raise
        sys.stderr.write(f"bucketbench: {visible(str(error))}\n")
        return EXIT_USAGE if isinstance(error, UsageError) else EXIT_ERROR
    except ModuleNotFoundError as error:
        text = missing_extra(error)
        if text is None or os.environ.get(TRACEBACK_VARIABLE) == "1":
            raise
        sys.stderr.write(f"bucketbench: {text}\n")
        return EXIT_USAGE
    except OSError as error:  # a directory that is read-only, a full disk
        if os.environ.get(TRACEBACK_VARIABLE) == "1":
            raise
        where = "" if error.filename is None else f"{error.filename}: "
        sys.stderr.write(f"bucketbench: {where}{error.strerror or error}\n")
        return EXIT_ERROR
    except KeyboardInterrupt:
        sys.stderr.write("bucketbench: interrupted\n")
        return 130
    except SystemExit as exit_request:  # argparse, for --help and for wrong arguments
        return exit_request.code if isinstance(exit_request.code, int) else EXIT_USAGE


def datagen() -> int:
    """Run ``torchbucket-datagen``, which is ``bucketbench datagen`` by itself."""
    return main(["datagen", *sys.argv[1:]])


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
    from bucketbench.cluster.meeting import leave
    from bucketbench.sweep.entry import run_scenario

    status = EXIT_ERROR
    try:
        status = run_scenario(arguments[0], arguments[1:])
    except UsageError:
        status = EXIT_USAGE
        raise
    finally:
        leave(status)  # so that the other nodes, where there are some, end like this one
    return status


def _complete(arguments: list[str]) -> int:
    """Answer a shell that completes ``bucketbench run SCENARIO …``, or install that, as every Hydra program does."""
    words = os.environ.get("COMP_LINE", "").split()
    from bucketbench.sweep.entry import run_scenario

    return run_scenario(words[2] if words[1:2] == ["run"] and len(words) > 2 else scenario_names()[0], arguments)


if __name__ == "__main__":
    sys.exit(main())
