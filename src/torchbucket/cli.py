"""The command ``torchbucket``: what is in a bucket, or in a checkpoint, manifests, and tidying up.

A subcommand is a module with ``add_arguments(parser)``, which declares what it takes, and ``run(arguments)``, which
does it and returns the exit status. It is imported when it is asked for.
"""

from __future__ import annotations

import argparse
import importlib
import io
import os
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Final

from torchbucket.cli_options import as_options
from torchbucket.errors import ConfigError, TorchbucketError

__all__ = ["main"]

EXIT_ERROR: Final = 1
EXIT_USAGE: Final = 2
EXIT_INTERRUPTED: Final = 130  # 128 and the number of SIGINT, as shells have it.


_COMMANDS: Final = {  # the module of each, and what it does
    "checkpoints": ("torchbucket.dcp.command", "list, verify and prune the distributed checkpoints of a run"),
    "inspect": ("torchbucket.inspection.command", "print the tensors of a checkpoint, reading headers only"),
    "list": ("torchbucket.listing.commands.listing", "print the objects under a prefix"),
    "manifest": ("torchbucket.listing.commands.manifest", "list a prefix once and keep it as a Parquet file"),
    "summary": ("torchbucket.listing.commands.summary", "count objects and sizes of a prefix or a manifest"),
    "sweep-temporaries": (
        "torchbucket.datasets.temporaries.command",
        "remove temporary objects that killed processes have left",
    ),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        argv: the arguments after the program's name; ``sys.argv`` when None.

    Returns:
        The exit status: 0; 1 when a store failed or a file is not what it should be; 2 for a mistake in what was asked
        for; 130 after an interruption. Mistakes and failures are one line on stderr.
    """
    if sys.stdout is None:  # closed when the process began
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - as long as the process lives
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a name may have what the terminal's encoding lacks
    try:
        status = _run(list(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()
        return status
    except SystemExit as exit_request:  # argparse, for --help and for wrong arguments
        return exit_request.code if isinstance(exit_request.code, int) else EXIT_USAGE
    except ConfigError as error:
        return _failed(error, EXIT_USAGE)
    except BrokenPipeError:
        # Who reads has seen enough. The interpreter would complain once more when it flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (TorchbucketError, OSError, ImportError) as error:
        return _failed(error, EXIT_ERROR)
    except KeyboardInterrupt:
        sys.stderr.write("torchbucket: interrupted\n")
        return EXIT_INTERRUPTED


def _run(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="torchbucket",
        description="Look at what is in a bucket or a directory: s3:// and gs:// addresses, and paths.",
        epilog="torchbucket COMMAND --help says what a command takes",
    )
    parser.add_argument("--version", action="version", version=f"torchbucket {metadata.version('torchbucket')}")
    parsers = parser.add_subparsers(metavar="COMMAND", required=True, dest="command")
    # Only the one that is asked for is imported: some load more than others.
    wanted = next((argument for argument in argv if not argument.startswith("-")), None)
    run = None
    for name, (module_name, summary) in _COMMANDS.items():
        subparser = parsers.add_parser(name, help=summary, description=f"{summary.capitalize()}.")
        if name == wanted:
            module = importlib.import_module(module_name)
            module.add_arguments(subparser)
            run = module.run
    arguments = parser.parse_args(argv)
    assert run is not None, "argparse accepts no other command than those of the table"
    status: int = run(arguments)
    return status


def _failed(error: Exception, status: int) -> int:
    text = as_options(" ".join(str(error).split())) or type(error).__name__
    sys.stderr.write(f"torchbucket: {text}\n")
    return status


if __name__ == "__main__":
    sys.exit(main())
