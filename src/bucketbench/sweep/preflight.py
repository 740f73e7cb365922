"""What is refused before anything starts, for every point of a sweep: what is not installed and what cannot fit."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import psutil

from bucketbench.configuration.settings import JobSettings
from bucketbench.errors import PreflightError
from bucketbench.job.description import Component
from bucketbench.job.interpreters import made_interpreter, search_path_of
from bucketbench.progress import say
from bucketbench.secrecy import secret_keys
from bucketbench.sweep.schemes import check_scheme

__all__ = ["check_component", "check_sweep"]


def check_sweep(points: Iterable[JobSettings]) -> None:
    """Raise for the first point of a sweep that cannot be run on this machine.

    Raises:
        PreflightError: names the client, model or key, what is missing or too large, and what to change.
    """
    seen: set[tuple[str, ...]] = set()
    for point in points:
        secret = secret_keys(point.config)
        if secret:
            raise PreflightError(
                f"{' and '.join(secret)} would put a credential into results and logs; credentials belong into the "
                "environment or a profile, where each client's own library finds them: leave the key out"
            )
        check_scheme(point)
        environment = point.config["client"]["environment"]
        for kind, component in point.components.items():
            named = (kind, component.name, component.target, *component.search_path, *component.requires)
            identity = (*named, str(environment))
            if identity not in seen:
                seen.add(identity)
                python = made_interpreter(environment, client=point.client.name, say=say)
                check_component(kind, component, python_path=search_path_of(python))
        point.check_fits(
            memory_bytes=psutil.virtual_memory().total,
            free_disk_bytes=shutil.disk_usage(_existing(point.cache_directory)).free,
        )


def check_component(kind: str, component: Component, *, python_path: Sequence[str]) -> None:
    """Raise where a client's or model's packages or module cannot be found. Nothing of it is imported.

    Args:
        kind: the group that chose it, such as ``client`` or ``model``, for the message.
        component: what to look for.
        python_path: where the interpreter that will run it looks for modules.

    Raises:
        PreflightError: says what was looked for and how to get it.
    """
    places = (*component.search_path, *python_path)
    absent = [name for name in component.requires if _spec_of(name, places) is None]
    if absent:
        packages = " and ".join(absent)
        raise PreflightError(
            f"the {kind} {component.name} needs the package{'s' if len(absent) > 1 else ''} {packages}, which "
            f"{'are' if len(absent) > 1 else 'is'} not installed here: install {packages} (pip install "
            f"'torchbucket[peers,vit]' has the {kind}s that come with bucketbench), or leave {component.name} out of "
            f"{kind}=…"
        )
    spec = _spec_of(component.module, places)
    if spec is None:
        where = ", ".join(component.search_path) or "the Python path"
        raise PreflightError(
            f"the {kind} {component.name} is {component.target}, but there is no module {component.module} in {where}: "
            f"correct _target_, or set {kind}.path to the directory with the module"
        )


def _existing(path: Path) -> Path:
    while not path.exists():
        path = path.parent
    return path


def _spec_of(module: str, python_path: Sequence[str]) -> importlib.machinery.ModuleSpec | None:
    """Find a module without running a line of it; its packages' ``__init__`` are not run either."""
    places: Sequence[str] | None = python_path
    spec: importlib.machinery.ModuleSpec | None = None
    for part in module.split("."):
        if places is None:
            return None  # the part before is a module and no package
        # By its last part alone: the finder would look for the parent of a dotted name among the imported modules.
        spec = importlib.machinery.PathFinder.find_spec(part, places)
        if spec is None and part == module and part in sys.builtin_module_names:
            spec = importlib.util.find_spec(part)
        if spec is None:
            return None
        places = None if spec.submodule_search_locations is None else list(spec.submodule_search_locations)
    return spec
