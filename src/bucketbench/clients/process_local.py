"""A value that each process makes for itself: a client library's connections, made in the worker that uses them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

__all__ = ["ProcessLocal"]

T = TypeVar("T")


class ProcessLocal(Generic[T]):
    """Makes a value on first use, once a process, and never carries one over a fork or in a pickle.

    A parent's value is kept and left alone in a forked child: its destructor would end the parent's connections.
    Threads of a process share the value.

    Args:
        make: makes the value; must be picklable where the holder is sent to spawned workers.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._slots: dict[int, _Slot[T]] = {}

    def get(self) -> T:
        """This process's value."""
        # A slot has its own lock, since a thread of the parent may have held the parent's at the fork.
        slot = self._slots.setdefault(os.getpid(), _Slot())
        with slot.lock:
            if not slot.made:
                slot.made.append(self._make())
            return slot.made[0]

    def __reduce__(self) -> tuple[Any, ...]:
        return ProcessLocal, (self._make,)


class _Slot(Generic[T]):
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.made: list[T] = []
