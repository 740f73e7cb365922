"""Lines of progress on standard error; standard output is for results."""

from __future__ import annotations

import sys

from bucketbench.streams import redirect_to_devnull

__all__ = ["say"]


def say(line: str) -> None:
    """Write one line of progress at once."""
    try:
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()
    except OSError:
        redirect_to_devnull(
            sys.stderr
        )  # nobody reads it any more, or its disk is full: that must cost no job its result
