"""Names of a package that are loaded when they are first used, so that importing the package loads nothing heavy."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module

__all__ = ["loaded_when_used"]


def loaded_when_used(
    package: str, places: Mapping[str, str]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """The ``__getattr__`` and ``__dir__`` of a package.

    Args:
        package: its ``__name__``.
        places: the module that each name is loaded from.
    """
    names = vars(sys.modules[package])

    def load(name: str) -> object:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = names[name] = getattr(import_module(places[name]), name)
        return value

    def known() -> list[str]:
        return sorted({*names, *names["__all__"]})

    return load, known
