"""One program at a time measures into a run's directory."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bucketbench.errors import UsageError

__all__ = ["LOCK_FILE", "held"]

LOCK_FILE: Final = ".running"


@contextmanager
def held(directory: Path) -> Iterator[None]:
    """A block that no other program is in for the same run.

    The lock is advisory, ``flock`` on a file that is removed at the end. It ends with the process, however that ends,
    so that what a killed one leaves is no lock. Over NFS, Linux has the server keep it, so that it holds between
    machines.

    Args:
        directory: the run's.

    Raises:
        UsageError: another program is in such a block.
        OSError: the file cannot be made.
    """
    path = directory / LOCK_FILE
    descriptor = _locked(path)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)  # before it is free: who opens it now makes another
        os.close(descriptor)


def _locked(path: Path) -> int:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_still(path, descriptor):
                return descriptor
        except BlockingIOError:
            os.close(descriptor)
            raise UsageError(f"the run in {path.parent} still goes on: wait for its end, or end it by Ctrl-C") from None
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # of a file that its holder has removed meanwhile


def _is_still(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
