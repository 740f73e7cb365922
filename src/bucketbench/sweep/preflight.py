"""What is refused before anything starts, for every point of a sweep: what is not installed and what cannot fit."""

from __future__ import annotations

import ast
import importlib.machinery
import importlib.util
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import psutil

from bucketbench.configuration.settings import JobSettings
from bucketbench.errors import PreflightError
from bucketbench.job import Component
from bucketbench.secrecy import secret_keys
from bucketbench.units import format_bytes

__all__ = ["check_component", "check_fits", "check_sweep", "made_mark"]

_MEMORY_SHARE: Final = 0.8
"""The part of the memory that batches may take. *Source*: ours; the rest is for the interpreters, 0.3 GiB each."""

_DISK_SHARE: Final = 0.95
"""The part of the free disk space that a data set may take. *Source*: ours, so that logs and results still fit."""


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
        for kind, component in (("client", point.client), ("model", point.model)):
            identity = (kind, component.name, component.target, *component.search_path, *component.requires)
            if identity not in seen:
                seen.add(identity)
                check_component(kind, component)
        check_fits(
            point,
            memory_bytes=psutil.virtual_memory().total,
            free_disk_bytes=shutil.disk_usage(_existing(point.cache_directory)).free,
        )


def check_component(kind: str, component: Component) -> None:
    """Raise where a client's or model's packages, module or class cannot be found. Nothing of it is imported.

    Args:
        kind: ``client`` or ``model``, for the message.
        component: what to look for.

    Raises:
        PreflightError: says what was looked for and how to get it.
    """
    absent = [name for name in component.requires if _spec_of(name, component.search_path) is None]
    if absent:
        packages = " and ".join(absent)
        raise PreflightError(
            f"the {kind} {component.name} needs the package{'s' if len(absent) > 1 else ''} {packages}, which "
            f"{'are' if len(absent) > 1 else 'is'} not installed here: install {packages} (pip install "
            f"'torchbucket[peers,vit]' has the {kind}s that come with bucketbench), or leave {component.name} out of "
            f"{kind}=…"
        )
    spec = _spec_of(component.module, component.search_path)
    if spec is None:
        where = ", ".join(component.search_path) or "the Python path"
        raise PreflightError(
            f"the {kind} {component.name} is {component.target}, but there is no module {component.module} in {where}: "
            f"correct _target_, or set {kind}.path to the directory with the module"
        )
    if component.class_name not in (_top_level_names(spec) or {component.class_name}):
        raise PreflightError(
            f"the {kind} {component.name} is {component.target}, but {spec.origin} defines no {component.class_name}: "
            "correct _target_"
        )


def check_fits(point: JobSettings, *, memory_bytes: int, free_disk_bytes: int) -> None:
    """Raise where batches exceed the memory, or a data set that is kept here exceeds the disk.

    Args:
        point: what is to be run.
        memory_bytes: the machine's memory.
        free_disk_bytes: free space where ``cache_dir`` lies.

    Raises:
        PreflightError: with the figures on both sides.
    """
    loader = point.loader
    batches_bytes = point.batch_memory_bytes()
    if batches_bytes > memory_bytes * _MEMORY_SHARE:
        raise PreflightError(
            f"{loader.num_workers} workers x {loader.prefetch_factor} prefetched batches x {loader.batch_size} samples "
            f"of {format_bytes(point.dataset_spec.sample_size_bytes)} can take {format_bytes(batches_bytes)}, more "
            f"than {_MEMORY_SHARE:.0%} of this machine's {format_bytes(memory_bytes)} of memory: lower "
            "dataloader.num_workers, dataloader.prefetch_factor or dataloader.batch_size"
        )
    spec = point.dataset_spec
    data_bytes = spec.num_samples * spec.sample_size_bytes
    if point.uses_testbed and not _is_there(point) and data_bytes > free_disk_bytes * _DISK_SHARE:
        raise PreflightError(
            f"the data set of {spec.num_samples:,} samples of {format_bytes(spec.sample_size_bytes)} takes "
            f"{format_bytes(data_bytes)}, and {point.cache_directory} has {format_bytes(free_disk_bytes)} left: lower "
            "data.num_samples or data.sample_size, or set cache_dir to a larger disk"
        )


def _is_there(point: JobSettings) -> bool:
    # A mark of our own, left when the data set was whole: how the testbed keeps its objects is the testbed's business.
    return made_mark(point).is_file()


def made_mark(point: JobSettings) -> Path:
    """The file that tells that the testbed's directory has the data set of ``point``."""
    return point.cache_directory / "made" / point.prefix.strip("/").replace("/", "+")


def _existing(path: Path) -> Path:
    while not path.exists():
        path = path.parent
    return path


def _spec_of(module: str, search_path: Sequence[str]) -> importlib.machinery.ModuleSpec | None:
    """Find a module without running a line of it; its packages' ``__init__`` are not run either."""
    places: Sequence[str] | None = [*search_path, *sys.path]
    spec: importlib.machinery.ModuleSpec | None = None
    name = ""
    for part in module.split("."):
        name = f"{name}.{part}" if name else part
        if places is None:
            return None  # the part before is a module and no package
        spec = importlib.machinery.PathFinder.find_spec(name, places)
        if spec is None and "." not in name and name in sys.builtin_module_names:
            spec = importlib.util.find_spec(name)
        if spec is None:
            return None
        places = spec.submodule_search_locations
    return spec


def _top_level_names(spec: importlib.machinery.ModuleSpec) -> set[str] | None:
    """The names that a module's source defines or imports, None where that cannot be told without running it."""
    if spec.origin is None or not spec.origin.endswith(".py"):
        return None
    try:
        tree = ast.parse(Path(spec.origin).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None  # importing it will say what is wrong, better than we could
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names):
            return None
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {alias.asname or alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return None if "__getattr__" in names else names
