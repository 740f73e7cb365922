"""What a dotted path names."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["imported"]


def imported(path: str) -> Any:
    """The object that a dotted path such as ``package.module.name`` names, its module imported.

    Raises:
        AttributeError: the module has no such name.
        ImportError: there is no such module.
    """
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)
