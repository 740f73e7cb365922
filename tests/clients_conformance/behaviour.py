"""The list of behaviours: each a function of a `Bench`, under the words that head its row in the table."""

from __future__ import annotations

import random
from collections.abc import Callable

from client_shape import Bench

__all__ = ["BEHAVIOURS", "Behaviour", "behaviour", "noise"]

Behaviour = Callable[[Bench], None]

BEHAVIOURS: dict[str, Behaviour] = {}
"""By the row's words, in the table's order."""


def behaviour(words: str) -> Callable[[Behaviour], Behaviour]:
    """Puts a function into the list."""

    def listed(function: Behaviour) -> Behaviour:
        assert words not in BEHAVIOURS, words
        BEHAVIOURS[words] = function
        return function

    return listed


def noise(size_bytes: int, seed: int = 1) -> bytes:
    """Returns bytes that do not repeat, the same in each run."""
    return random.Random(seed).randbytes(size_bytes)
