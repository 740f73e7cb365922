"""What a behaviour is: a function of a `Bench`, with the words that head its row in the table."""

from __future__ import annotations

import random
from collections.abc import Callable
from types import ModuleType

from client_shape import Bench

__all__ = ["Behaviour", "behaviour", "behaviours_in", "noise"]

Behaviour = Callable[[Bench], None]

_WORDS = "behaviour_words"


def behaviour(words: str) -> Callable[[Behaviour], Behaviour]:
    """Makes a function a behaviour, under these words."""

    def marked(function: Behaviour) -> Behaviour:
        setattr(function, _WORDS, words)
        return function

    return marked


def behaviours_in(*modules: ModuleType) -> dict[str, Behaviour]:
    """Returns the behaviours of modules by their words, in the modules' order and within each in the order of the
    text."""
    found: dict[str, Behaviour] = {}
    for module in modules:
        for value in vars(module).values():
            words = getattr(value, _WORDS, None)
            if words is not None:
                assert words not in found, words
                found[words] = value
    return found


def noise(size_bytes: int, seed: int = 1) -> bytes:
    """Returns bytes that do not repeat, the same in each run."""
    return random.Random(seed).randbytes(size_bytes)
