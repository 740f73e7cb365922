"""One job as the measured process receives it: ``job.json``, and the names of the files in a job's directory.

The sweep's process writes the description, a fresh interpreter reads it (:mod:`bucketbench.worker`), and both share
nothing else. It holds no credential: those reach the measured process by its environment alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from bucketbench.clients.protocol import Target

__all__ = [
    "JOB_FILE",
    "LOG_FILE",
    "OPERATIONS_FILE",
    "OUTCOME_FILE",
    "PROGRESS_FILE",
    "USAGE_FILE",
    "Component",
    "Job",
    "LoaderSettings",
    "LocalCopy",
]

JOB_FILE: Final = "job.json"
LOG_FILE: Final = "benchmark.log"
OPERATIONS_FILE: Final = "operations.jsonl"
USAGE_FILE: Final = "usage.jsonl"
OUTCOME_FILE: Final = "outcome.json"
PROGRESS_FILE: Final = "progress.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class Component:
    """A class to import and build: a client or a model.

    Args:
        name: what the results call it.
        target: dotted path of the class.
        requires: import names of the packages it needs, whose versions go into the results.
        search_path: directories put on ``sys.path`` to find it, the first one first.
        options: keyword arguments of the class.
    """

    name: str
    target: str
    requires: tuple[str, ...] = ()
    search_path: tuple[str, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def module(self) -> str:
        """The dotted name of the class's module."""
        return self._parts()[0]

    @property
    def class_name(self) -> str:
        """The name of the class within its module."""
        return self._parts()[1]

    def _parts(self) -> tuple[str, str]:
        module, _, name = self.target.replace(":", ".").rpartition(".")
        return module, name


@dataclass(frozen=True, kw_only=True, slots=True)
class LoaderSettings:
    """The DataLoader's arguments; ``start_method`` may be ``auto`` (see :mod:`bucketbench.scenarios.loading`)."""

    num_workers: int
    batch_size: int
    prefetch_factor: int
    start_method: str
    persistent_workers: bool
    pin_memory: bool
    shuffle: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class LocalCopy:
    """Where a client that reads local files finds the same samples, and what to make there if they are not.

    Args:
        directory: absolute path of the directory with the samples.
        spec: fields of the ``DatasetSpec``.
    """

    directory: str
    spec: dict[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """Everything that the measured process needs to know.

    Args:
        scenario: name of the scenario, a module of :mod:`bucketbench.scenarios`.
        client: the client under comparison.
        model: what is done with the samples.
        target: where the data lie.
        samples_file: absolute path of the JSON lines that list every sample's key, size and XXH3-128.
        loader: the DataLoader's settings.
        epochs: number of measured passes over the data, None for as many as ``min_measured_s`` takes.
        min_measured_s: seconds that the passes take together at least, where ``epochs`` is None.
        warmup_samples: length of the pass before them, which is not measured; 0 for none.
        seed: seed of the order of samples, and of a model's weights.
        device: ``auto``, ``cpu`` or ``cuda``.
        admin_url: the testbed's admin route, None for a real service.
        local_copy: for clients that read local files.
    """

    scenario: str
    client: Component
    model: Component
    target: Target
    samples_file: str
    loader: LoaderSettings
    epochs: int | None
    min_measured_s: float
    warmup_samples: int
    seed: int
    device: str
    admin_url: str | None
    local_copy: LocalCopy

    def write(self, directory: Path) -> None:
        """Write ``job.json`` into a job's directory."""
        (directory / JOB_FILE).write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, directory: Path) -> Self:
        """The job of which ``write`` left the description in ``directory``."""
        return cls.from_json(json.loads((directory / JOB_FILE).read_text(encoding="utf-8")))

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Self:
        """The job with the given fields, nested values as plain mappings."""
        nested = {
            "client": _component(fields["client"]),
            "model": _component(fields["model"]),
            "target": Target(**fields["target"]),
            "loader": LoaderSettings(**fields["loader"]),
            "local_copy": LocalCopy(**fields["local_copy"]),
        }
        return cls(**{**fields, **nested})


def _component(fields: Mapping[str, Any]) -> Component:
    lists = {name: tuple(fields[name]) for name in ("requires", "search_path")}
    return Component(**{**fields, **lists})
