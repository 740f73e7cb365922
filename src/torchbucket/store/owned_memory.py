"""Memory that belongs to an object which has no view of it, as a view that keeps the object alive."""

from __future__ import annotations

import numpy as np

__all__ = ["view_of"]


class _Memory:
    """An object's memory, as numpy asks for it; every array and view of it keeps the object alive."""

    def __init__(self, owner: object, address: int, length: int) -> None:
        self._owner = owner
        self.__array_interface__ = {"version": 3, "typestr": "|u1", "shape": (length,), "data": (address, False)}


def view_of(owner: object, address: int, length: int) -> memoryview:
    """A flat writable view of ``length`` bytes at an address, which stay there as long as ``owner`` lives."""
    return np.asarray(_Memory(owner, address, length)).data
