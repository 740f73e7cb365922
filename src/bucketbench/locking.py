"""What one program of a machine does at a time."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["alone"]


@contextmanager
def alone(path: Path, *, waits: bool) -> Iterator[None]:
    """A block that no other program, and no other thread of this one, is in for the same file.

    The lock is advisory, ``flock`` on a file that is removed at the end. It ends with the process, however that ends,
    so that what a killed one leaves is no lock. Over NFS, Linux has the server keep it, so that it holds between
    machines.

    Args:
        path: the file, in a directory that is there.
        waits: whether to wait for the end of another such block.

    Raises:
        BlockingIOError: another program is in such a block, and this one does not wait.
        OSError: the file cannot be made.
    """
    descriptor = _locked(path, fcntl.LOCK_EX if waits else fcntl.LOCK_EX | fcntl.LOCK_NB)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)  # before it is free: who opens it now makes another
        os.close(descriptor)


def _locked(path: Path, way: int) -> int:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        try:
            fcntl.flock(descriptor, way)
            if _is_still(path, descriptor):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # of a file that its holder has removed meanwhile


def _is_still(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
