"""The names that users import from ``torchbucket`` say so, wherever they are written."""

from __future__ import annotations

from typing import TypeVar

__all__ = ["public"]

T = TypeVar("T")


def public(named: T) -> T:
    """Have ``help``, messages and pickles call a class or function ``torchbucket.NAME``, which must be importable."""
    named.__module__ = "torchbucket"
    return named
