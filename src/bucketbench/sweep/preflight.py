"""What is refused before anything starts, for every point of a sweep: what is not installed and what cannot fit."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

import psutil

from bucketbench.configuration.settings import JobSettings
from bucketbench.errors import PreflightError
from bucketbench.extras import EXTRAS, installation
from bucketbench.job.description import Component
from bucketbench.job.environment import measured_environment
from bucketbench.job.interpreters import made_interpreter, search_path_of
from bucketbench.job.options import wrong_options
from bucketbench.progress import say
from bucketbench.reasons import as_keys
from bucketbench.scenarios import find_scenario
from bucketbench.secrecy import secret_keys, secret_values
from bucketbench.sweep.schemes import check_scheme

__all__ = ["check_component", "check_distinct", "check_sweep"]

_EXTRAS: Final = {"sink": {**EXTRAS, "boto3": "dynamodb"}}
"""What brings a package to a component of a kind, where that is not what brings it to a client or a model."""


def check_sweep(points: Iterable[JobSettings], *, makes: bool = True) -> None:
    """Raise for the first point of a sweep that cannot be run on this machine.

    Args:
        points: of the sweep.
        makes: whether the environments that clients need for themselves are made; else such clients are passed over.

    Raises:
        PreflightError: names the client, model or key, what is missing or too large, and what to change.
    """
    seen: set[tuple[str, ...]] = set()
    points, secrets = list(points), secret_values()
    for point in points:
        secret = secret_keys(point.config, secrets=secrets)
        if secret:
            raise PreflightError(
                f"{' and '.join(secret)} would put a credential into results and logs; credentials belong into the "
                "environment or a profile, where each client's own library finds them: leave the key out"
            )
        check_scheme(point)
        if find_scenario(point.scenario).keeps_objects:
            _check_writable(point.cache_directory)
        environment = point.config["client"]["environment"]
        for kind, component in point.components.items():
            named = (kind, component.name, component.target, *component.search_path, *component.requires)
            identity = (*named, str(environment))
            if identity not in seen and (makes or environment is None):
                seen.add(identity)
                python = made_interpreter(environment, client=point.client.name, say=say)
                check_component(kind, component, python_path=search_path_of(python))
        point.check_fits(
            memory_bytes=psutil.virtual_memory().total,
            free_disk_bytes=shutil.disk_usage(_existing(point.cache_directory)).free,
        )
    _check_options([point for point in points if makes or point.config["client"]["environment"] is None])


def _check_options(points: Sequence[JobSettings]) -> None:
    """Raise for the first client that does not take the options that it is given."""
    asked: dict[tuple[str | None, bool], dict[str, Component]] = {}
    for point in points:
        client = point.client
        if client.options:
            key = (point.config["client"]["environment"], point.uses_testbed)
            asked.setdefault(key, {})[json.dumps(asdict(client), sort_keys=True, default=str)] = client
    for (environment, testbed), found in asked.items():
        clients = list(found.values())
        python = made_interpreter(environment, client=clients[0].name, say=say)
        problems = wrong_options(clients, python=python, environment=measured_environment(os.environ, testbed=testbed))
        for client, problem in zip(clients, problems or (), strict=False):
            if problem is not None:
                raise PreflightError(f"client={client.name}, client.options: {as_keys(problem)}")


def check_component(kind: str, component: Component, *, python_path: Sequence[str]) -> None:
    """Raise where a client's, model's or sink's packages or module cannot be found. Nothing of it is imported.

    Args:
        kind: the group that chose it: ``client``, ``model`` or ``sink``, for the message.
        component: what to look for.
        python_path: where the interpreter that will run it looks for modules.

    Raises:
        PreflightError: says what was looked for and how to get it.
    """
    places = (*component.search_path, *python_path)
    absent = [name for name in component.requires if _spec_of(name, places) is None]
    if absent:
        packages = " and ".join(absent)
        are, s = ("are", "s") if len(absent) > 1 else ("is", "")
        extras = sorted({_EXTRAS.get(kind, EXTRAS).get(name, "") for name in absent} - {""})
        install = installation(",".join(extras)) if extras else f"install {packages}"
        raise PreflightError(
            f"the {kind} {component.name} needs the package{s} {packages}, which {are} not "
            f"installed here: {install}, or leave {component.name} out of {kind}=…"
        )
    spec = _spec_of(component.module, places)
    if spec is None:
        where = ", ".join(component.search_path) or "the Python path"
        raise PreflightError(
            f"the {kind} {component.name} is {component.target}, but there is no module {component.module} in {where}: "
            f"correct _target_, or set {kind}.path to the directory with the module"
        )


def check_distinct(points: Iterable[JobSettings]) -> None:
    """Raise where the results of two points that differ in more than their repeat could not be told apart.

    Raises:
        PreflightError: says what they have in common, and what to change.
    """
    seen: dict[str, JobSettings] = {}
    for point in points:
        identity = (point.client.name, point.client_options, point.parameters)
        first = seen.setdefault(json.dumps(identity, sort_keys=True, default=str), point)
        if first is point:
            continue
        for key in ("disambiguator", "label"):
            marks = [str(one.config[key]) for one in (first, point)]
            if marks[0] != marks[1]:
                raise PreflightError(
                    f"{key}={','.join(marks)}: it marks the results of a whole run, and does not tell two jobs of "
                    "one apart; start a run for each"
                )
        raise PreflightError(
            f"two points of the sweep measure the client {point.client.name!r} with the same options and parameters, "
            "so that their results could not be told apart: give each its own client.name, or leave one out; repeat "
            "jobs by repeat=range(N)"
        )


def _check_writable(cache: Path) -> None:
    """Raise where nothing can be made in the directory that data sets are kept in."""
    there = _existing(cache)
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        why = "may not be written to" if there.is_dir() else "is no directory"
        raise PreflightError(
            f"cache_dir={cache} cannot be used: {there} {why}; name a directory that you may write to, such as "
            "cache_dir=/tmp/bucketbench"
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
