"""One program at a time measures into a run's directory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from bucketbench.errors import UsageError
from bucketbench.locking import alone

__all__ = ["LOCK_FILE", "held"]

LOCK_FILE: Final = ".running"


@contextmanager
def held(directory: Path) -> Iterator[None]:
    """A block that no other program is in for the same run, also one on another machine.

    Args:
        directory: the run's.

    Raises:
        UsageError: another program is in such a block.
        OSError: the file of the lock cannot be made.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(alone(directory / LOCK_FILE, waits=False))
        except BlockingIOError:
            raise UsageError(f"the run in {directory} still goes on: wait for its end, or end it by Ctrl-C") from None
        yield
