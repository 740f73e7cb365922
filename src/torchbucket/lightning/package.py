"""Which of Lightning's packages a program uses: ``lightning``, or ``pytorch_lightning`` with ``lightning_fabric``.

They hold the same classes twice, and each takes only its own for a plugin or a callback. Where a program has imported
one of them, it is that one; where it has imported none or both, ``lightning`` if it is installed.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Final

__all__ = ["fabric", "loaded_fabrics", "pytorch"]

# Of each package: what is imported for it to count, its Fabric and its Trainer.
_PACKAGES: Final = (
    ("lightning", "lightning.fabric", "lightning.pytorch"),
    ("lightning_fabric", "lightning_fabric", "pytorch_lightning"),
)


def _chosen() -> tuple[str, str, str]:
    found = [names for names in _PACKAGES if names[0] in sys.modules] or [
        names for names in _PACKAGES if find_spec(names[0]) is not None
    ]
    if not found:
        raise ImportError(
            "torchbucket.lightning needs Lightning, of which neither the package 'lightning' nor 'pytorch_lightning' "
            "is installed: pip install 'torchbucket[lightning]'"
        )
    return found[0]


def fabric(module: str) -> ModuleType:
    """A module of the Fabric of the program's package, such as ``plugins``."""
    return import_module(f"{_chosen()[1]}.{module}")


def pytorch(module: str) -> ModuleType:
    """A module beside the Trainer of the program's package, such as ``callbacks``."""
    return import_module(f"{_chosen()[2]}.{module}")


def loaded_fabrics(module: str) -> list[ModuleType]:
    """That module of every package that the program has imported."""
    return [import_module(f"{name}.{module}") for loaded, name, _ in _PACKAGES if loaded in sys.modules]
