"""A block of memory that a process and the workers it starts see alike, however they are started."""

from __future__ import annotations

import fcntl
import mmap
import multiprocessing.context
import multiprocessing.reduction
import os
import tempfile
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from torchbucket.store.forking import renew_after_fork

__all__ = ["SharedBlock", "is_being_sent_to_a_child"]


class _SentDescriptor(Protocol):
    def detach(self) -> int: ...


class SharedBlock:
    """Zeroed memory of a fixed size, shared with forked children and with those it is pickled for.

    It is an unnamed file in memory (``memfd_create``; an unlinked temporary file where the system has none), so that
    ``/dev/shm``, 64 MiB in many containers, does not bound it and nothing is left behind. Only a child that is being
    started receives it (see ``is_being_sent_to_a_child``); any other pickling is an error.

    Args:
        size_bytes: at least 1.
        descriptor: an open file of that size, owned by the block from now on; None makes one.
    """

    def __init__(self, size_bytes: int, *, descriptor: int | None = None) -> None:
        self.size_bytes = size_bytes
        self._descriptor = _new_file(size_bytes) if descriptor is None else descriptor
        # Not at the exit, at which the number may serve another file before the last who locks the block is gone.
        weakref.finalize(self, os.close, self._descriptor).atexit = False
        self.memory = mmap.mmap(self._descriptor, size_bytes)
        self.renew()
        renew_after_fork(self)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep the other processes and threads out meanwhile; a process that is killed inside leaves no lock."""
        # A record lock is the process', not the open file's, which forked processes have in common.
        with self._threads:
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX)
            try:
                yield
            finally:
                fcntl.lockf(self._descriptor, fcntl.LOCK_UN)

    def renew(self) -> None:
        """Make a new lock, in a forked child."""
        self._threads = threading.Lock()

    def __reduce__(self) -> tuple[object, ...]:
        if not is_being_sent_to_a_child():
            raise TypeError("a shared block goes to child processes only, while they are being started")
        return _received, (multiprocessing.reduction.DupFd(self._descriptor), self.size_bytes)


def is_being_sent_to_a_child() -> bool:
    """Whether the calling thread is pickling what a child process, by spawn or forkserver, starts with."""
    return multiprocessing.context.get_spawning_popen() is not None


def _new_file(size_bytes: int) -> int:
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("torchbucket")
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    try:
        os.truncate(descriptor, size_bytes)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _received(sent: _SentDescriptor, size_bytes: int) -> SharedBlock:
    return SharedBlock(size_bytes, descriptor=sent.detach())
