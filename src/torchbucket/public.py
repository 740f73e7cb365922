"""The names that users import say where from, wherever they are written."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

__all__ = ["public", "public_in"]

T = TypeVar("T")


def public(named: T) -> T:
    """Have ``help``, messages and pickles call a class or function ``torchbucket.NAME``, which must be importable."""
    return public_in("torchbucket")(named)


def public_in(module: str) -> Callable[[T], T]:
    """Have them call it ``MODULE.NAME``, which must be importable."""

    def decorated(named: T) -> T:
        named.__module__ = module
        return named

    return decorated
