"""What a dotted path names."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["imported"]


def imported(path: str) -> Any:
    """The object that a dotted path such as ``package.module.name`` names, its module imported.

    The last parts may be a class and what it has, such as ``package.module.Class.method``.

    Raises:
        AttributeError: the module has no such name.
        ImportError: there is no such module, or it does not import.
    """
    owner_path, _, name = path.rpartition(".")
    try:
        owner = importlib.import_module(owner_path)
    except ModuleNotFoundError as error:
        if error.name != owner_path or "." not in owner_path:
            raise
        owner = imported(owner_path)
    return getattr(owner, name)
