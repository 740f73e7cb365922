"""Standard output and standard error whose reader has gone away, as after ``2>&1 | head``."""

from __future__ import annotations

import os
from typing import TextIO

__all__ = ["redirect_to_devnull"]


def redirect_to_devnull(stream: TextIO) -> None:
    """Let what the stream still holds, and all that is yet written to it, go nowhere.

    Python flushes both streams when it exits, and exits with status 120 where that fails.
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
