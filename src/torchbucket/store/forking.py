"""What must happen around a fork, so that neither side ever waits for the other's locks, threads or connections."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from typing import Protocol, TypeVar
from weakref import WeakValueDictionary

__all__ = ["Holdable", "Renewable", "forks_before", "hold_during_fork", "renew_after_fork"]

T = TypeVar("T")


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


# By identity. Unlike a WeakSet these can be read in one step, whatever other threads add and the collector removes.
_renewable: WeakValueDictionary[int, Renewable] = WeakValueDictionary()
_holdable: WeakValueDictionary[int, Holdable] = WeakValueDictionary()
_held_by_thread: dict[int, list[Holdable]] = {}  # by the thread that forks
_one_fork = threading.RLock()
forks_before = 0
"""How many forks lie between the program's first process and this one: it differs in parent and child."""


def renew_after_fork(owner: Renewable) -> None:
    """Have ``owner.renew`` called in every child forked while the owner is alive."""
    _renewable[id(owner)] = owner


def hold_during_fork(owner: Holdable) -> None:
    """Have ``owner.hold`` called before every fork of this process and ``owner.resume`` after it.

    Waits for the end of a fork that is under way, so it is for the thread that is to be held, while it holds nothing.
    """
    with _one_fork:
        _holdable[id(owner)] = owner


def _existing(owners: WeakValueDictionary[int, T]) -> Iterator[T]:
    for reference in owners.valuerefs():
        owner = reference()
        if owner is not None:
            yield owner


def _before() -> None:
    # One fork at a time, since two threads that hold the same owners in another order would wait for each other.
    _one_fork.acquire()
    held = _held_by_thread[threading.get_ident()] = []
    for owner in _existing(_holdable):
        held.append(owner)
        owner.hold()


def _after_in_parent() -> None:
    # An interrupt (Ctrl-C) may have ended `_before` anywhere, and the fork happens nevertheless.
    for owner in _held_by_thread.pop(threading.get_ident(), ()):
        with contextlib.suppress(RuntimeError):
            owner.resume()
    with contextlib.suppress(RuntimeError):
        _one_fork.release()


def _after_in_child() -> None:
    # The parent's other threads are gone and may have held any lock; each owner makes itself new ones. What was held
    # is the parent's, and none of the child's own threads is there yet.
    global _one_fork, forks_before, _holdable
    _one_fork = threading.RLock()
    forks_before += 1
    _held_by_thread.clear()
    _holdable = WeakValueDictionary()
    failure: BaseException | None = None
    for owner in _existing(_renewable):
        try:
            owner.renew()
        except BaseException as error:  # noqa: BLE001  # the others are renewed nevertheless
            failure = error
    if failure is not None:
        raise failure


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
