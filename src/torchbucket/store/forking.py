"""Renewal of locks, threads and connections in a forked child."""

from __future__ import annotations

import os
import weakref
from typing import Protocol

__all__ = ["Renewable", "renew_after_fork"]


class Renewable(Protocol):
    """An object whose locks or threads do not survive a fork."""

    def renew(self) -> None:
        """Replace, in the child, all that only the parent may use; called before any other code runs there."""
        ...


_alive: weakref.WeakSet[Renewable] = weakref.WeakSet()


def renew_after_fork(owner: Renewable) -> None:
    """Have ``owner.renew`` called in every child forked while the owner is alive."""
    _alive.add(owner)


def _renew_all() -> None:
    # The parent's other threads are gone and may have held any lock; each owner makes itself new ones.
    for owner in list(_alive):
        owner.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)
