"""The scenarios: each is a package here with everything that is its own, and nothing else knows one by name.

A scenario is a value, ``SCENARIO``, in the module ``scenario`` of its package (:mod:`bucketbench.scenarios.scenario`
says what it consists of). Its package has the name of its configuration file. One that lies outside this repository is
a package on the Python path, or in the directory given by ``--config-dir``, beside that file.

A scenario knows no client by name. The modules beside the packages are what scenarios share.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from typing import TYPE_CHECKING

from bucketbench.errors import UsageError

if TYPE_CHECKING:
    from bucketbench.scenarios.scenario import Scenario

__all__ = ["find_scenario", "scenario_names"]


def scenario_names() -> list[str]:
    """The names of the scenarios that come with bucketbench."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if module.ispkg)


def find_scenario(name: str) -> Scenario:
    """The scenario of a name: one of this package, or of a package of that name on the Python path.

    Raises:
        UsageError: there is none.
    """
    own = scenario_names()
    package = f"{__name__}.{name}" if name in own else name
    if not name.isidentifier() or (name not in own and importlib.util.find_spec(name) is None):
        raise _unknown(name, own)
    try:
        scenario: Scenario = importlib.import_module(f"{package}.scenario").SCENARIO
    except (ModuleNotFoundError, AttributeError) as error:
        if isinstance(error, ModuleNotFoundError) and error.name not in (package, f"{package}.scenario"):
            raise  # something that the scenario itself needs
        raise _unknown(name, own) from error
    return scenario


def _unknown(name: str, own: list[str]) -> UsageError:
    return UsageError(
        f"there is no scenario {name!r}; the scenarios are: {', '.join(own)}. One of your own is a package {name} with "
        f"a module scenario that has SCENARIO, beside {name}.yaml in the directory given by --config-dir"
    )
