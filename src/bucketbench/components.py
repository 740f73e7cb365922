"""Builds a client or a model from its configuration, in the measured process, as Hydra builds objects."""

from __future__ import annotations

import sys
from typing import Any

from hydra.errors import InstantiationException
from hydra.utils import instantiate

from bucketbench.errors import ConfigurationError
from bucketbench.job.description import Component

__all__ = ["build"]


def build(component: Component) -> Any:
    """Build a component's class from its options by ``hydra.utils.instantiate``.

    Options may be objects themselves, with a ``_target_`` of their own, and ``_partial_`` and ``_args_`` mean what they
    mean to Hydra. The component's search path is put first on ``sys.path`` of this process, and of the workers that it
    starts.

    Raises:
        ConfigurationError: there is no such class, or it does not take these options.
        Exception: whatever importing the module or building the object raises.
    """
    for directory in reversed(component.search_path):
        if directory not in sys.path:
            sys.path.insert(0, directory)
    target = component.target.replace(":", ".")
    try:
        return instantiate({**component.options, "_target_": target}, _convert_="all")
    except InstantiationException as error:
        cause = error.__cause__
        if cause is not None and not isinstance(cause, TypeError | ImportError | AttributeError):
            raise cause from error  # the component's own word on what is wrong
        given = ", ".join(component.options) or "none"
        reason = " ".join(str(cause or error).split())
        raise ConfigurationError(
            f"{component.name}: {component.target} could not be built with the options {given}: {reason}"
        ) from error
