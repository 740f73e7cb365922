"""Builds a client or a model from its configuration, in the measured process.

It understands Hydra's way to describe objects, without Hydra: every job would pay for importing that.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from bucketbench.errors import ConfigurationError
from bucketbench.imports import imported
from bucketbench.job.description import Component

__all__ = ["build"]

_TARGET: Final = "_target_"
_ARGUMENTS: Final = "_args_"
_PARTIAL: Final = "_partial_"


def build(component: Component) -> Any:
    """Build a component's class from its options.

    Options may be objects themselves: a mapping with ``_target_`` is what calling that gives, with the mapping's other
    values as keyword arguments, those of ``_args_`` as positional ones, and with ``_partial_`` it is a
    ``functools.partial`` of the call. The component's search path is put first on ``sys.path`` of this process, and of
    the workers that it starts.

    Raises:
        ConfigurationError: there is no such class, or it does not take these options.
        Exception: whatever importing the module or building the object raises.
    """
    for directory in reversed(component.search_path):
        if directory not in sys.path:
            sys.path.insert(0, directory)
    try:
        return _built({**component.options, _TARGET: component.target.replace(":", ".")})
    except (TypeError, ImportError, AttributeError) as error:
        given = ", ".join(component.options) or "none"
        reason = " ".join(str(error).split())
        raise ConfigurationError(
            f"{component.name}: {component.target} could not be built with the options {given}: {reason}"
        ) from error


def _built(value: Any) -> Any:
    """The object that a plain value describes."""
    if isinstance(value, list):
        return [_built(item) for item in value]
    if not isinstance(value, Mapping):
        return value
    built = {key: _built(item) for key, item in value.items() if key not in (_TARGET, _PARTIAL)}
    if _TARGET not in value:
        return built
    called = imported(value[_TARGET])
    arguments = built.pop(_ARGUMENTS, ())
    return partial(called, *arguments, **built) if value.get(_PARTIAL) else called(*arguments, **built)
