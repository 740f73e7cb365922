"""Builds a client or a model from its dotted path, in the measured process."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from bucketbench.errors import ConfigurationError
from bucketbench.job import Component

__all__ = ["build"]


def build(component: Component) -> Any:
    """Import a component's class and build it from its options.

    Its search path is put first on ``sys.path`` of this process, and of the workers that it starts.

    Raises:
        ConfigurationError: the module has no such class, or the class does not take these options.
        Exception: whatever importing the module or building the object raises.
    """
    for directory in reversed(component.search_path):
        if directory not in sys.path:
            sys.path.insert(0, directory)
    module = importlib.import_module(component.module)
    try:
        cls = getattr(module, component.class_name)
    except AttributeError:
        raise ConfigurationError(
            f"{component.name}: the module {component.module} has no {component.class_name}; correct its _target_"
        ) from None
    try:
        return cls(**component.options)
    except TypeError as error:
        given = ", ".join(component.options) or "none"
        raise ConfigurationError(
            f"{component.name}: {component.target} could not be built with the options {given}: {error}"
        ) from error
