"""The command ``buckettestbed``, also ``python -m buckettestbed``: it says what to install where something lacks."""

import importlib
import sys
from collections.abc import Sequence

from buckettestbed.statuses import USAGE

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the testbed as `buckettestbed.command` does; 2 where a package of the extra `testbed` is not installed.

    Args:
        argv: the arguments after the program's name; None takes them from `sys.argv`.
    """
    try:
        command = importlib.import_module("buckettestbed.command")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("buckettestbed"):
            raise
        sys.stderr.write(
            f"buckettestbed: this needs the package {error.name}, which is not installed: "
            "pip install 'torchbucket[testbed]'\n"
        )
        return USAGE
    status: int = command.main(argv)
    return status


if __name__ == "__main__":
    sys.exit(main())
