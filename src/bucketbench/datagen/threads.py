"""Threads that stop early where what they do is wanted no more."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event

__all__ = ["Threads", "threads_for"]


class Threads(ThreadPoolExecutor):
    """Threads whose work asks now and then whether it is still wanted."""

    def __init__(self, count: int, name: str) -> None:
        super().__init__(count, thread_name_prefix=name)
        self._ending = Event()

    def end(self) -> None:
        """Have the work end where it asks next."""
        self._ending.set()

    def check_wanted(self) -> None:
        """Raise where nobody waits for the work any more.

        Raises:
            InterruptedError: the block that it is for has ended by an exception.
        """
        if self._ending.is_set():
            raise InterruptedError("what was being read is wanted no more")


@contextmanager
def threads_for(count: int, name: str) -> Iterator[Threads]:
    """Some threads for a block. Where an exception ends it, such as that of Ctrl-C, their work ends where it next asks.

    Args:
        count: of threads.
        name: what their names begin with.
    """
    with Threads(count, name) as threads:
        try:
            yield threads
        except BaseException:
            threads.end()
            raise
