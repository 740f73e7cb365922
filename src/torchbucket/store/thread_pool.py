"""Pools of threads that also serve what an interpreter waits for while it exits."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import thread as python_pools
from functools import partial
from typing import ParamSpec, TypeVar

from torchbucket.store.store_future import completed

__all__ = ["ThreadPool", "exit_has_begun"]

P = ParamSpec("P")
T = TypeVar("T")


class ThreadPool(ThreadPoolExecutor):
    """A pool that takes work for as long as there is anybody to give it.

    An interpreter that exits waits for its threads, among them those that save a checkpoint in the background. Python's
    pools refuse all work by then. This one has the caller do it.
    """

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Have a thread do the work; once the interpreter's exit has begun, do it now.

        Raises:
            RuntimeError: the pool is shut down, or no thread can be started.
        """
        try:
            return super().submit(fn, *args, **kwargs)
        except RuntimeError:
            if self._shutdown or not exit_has_begun():
                raise
        return completed(partial(fn, *args, **kwargs))


def exit_has_begun() -> bool:
    """Whether the main thread is at its end, and the interpreter waits for others or is torn down."""
    # Set before anything else is ended. Whether the main thread is alive changes only once all pools have ended.
    return python_pools._shutdown
