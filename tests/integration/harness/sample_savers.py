"""Clients of checkpoints that do what no client should; the tests of sweeps put this file into a user's folder."""

from __future__ import annotations

import copy
from typing import Any

_kept: dict[str, Any] = {}


class Kept:
    """Keeps states in memory: right, and without any request."""

    def checkpoints(self, target: Any) -> Any:
        return self

    def save(self, state: Any, key: str) -> None:
        _kept[key] = copy.deepcopy(state)

    def load(self, key: str) -> Any:
        return copy.deepcopy(_kept[key])

    def remove(self, key: str) -> None:
        del _kept[key]

    def close(self) -> None:
        _kept.clear()


class OneBit(Kept):
    """Loads one number a little wrong."""

    def load(self, key: str) -> Any:
        state = super().load(key)
        state["tensor.00002"][5] += 1e-6
        return state
