"""What must happen around a fork, so that neither side ever waits for the other's locks, threads or connections."""

from __future__ import annotations

import os
import threading
import weakref
from typing import Protocol

__all__ = ["Holdable", "Renewable", "hold_during_fork", "renew_after_fork"]


class Renewable(Protocol):
    """An object whose locks or threads do not survive a fork."""

    def renew(self) -> None:
        """Replace, in the child, all that only the parent may use; called before any other code runs there."""
        ...


class Holdable(Protocol):
    """An object whose thread must stand still, at a point of its own choice, while the process forks."""

    def hold(self) -> None:
        """Wait until the thread stands still and keep it so."""
        ...

    def resume(self) -> None:
        """Let the thread go on, in the parent."""
        ...


_renewable: weakref.WeakSet[Renewable] = weakref.WeakSet()
_holdable: weakref.WeakSet[Holdable] = weakref.WeakSet()
_held: list[Holdable] = []
_one_fork = threading.Lock()


def renew_after_fork(owner: Renewable) -> None:
    """Have ``owner.renew`` called in every child forked while the owner is alive."""
    _renewable.add(owner)


def hold_during_fork(owner: Holdable) -> None:
    """Have ``owner.hold`` called before every fork and ``owner.resume`` after it in the parent."""
    _holdable.add(owner)


def _before() -> None:
    # One fork at a time, since two threads that hold the same owners in another order would wait for each other.
    _one_fork.acquire()
    _held.extend(_holdable)
    for owner in _held:
        owner.hold()


def _after_in_parent() -> None:
    for owner in _held:
        owner.resume()
    _held.clear()
    _one_fork.release()


def _after_in_child() -> None:
    # The parent's other threads are gone and may have held any lock; each owner makes itself new ones.
    global _one_fork
    _one_fork = threading.Lock()
    _held.clear()
    for owner in list(_renewable):
        owner.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
