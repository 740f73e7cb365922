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
    "component",
    "read_description",
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
class Job:
    """What the measured process needs to know whatever the scenario; each scenario adds its own.

    Args:
        scenario: name of the scenario, a package of :mod:`bucketbench.scenarios`.
        client: the client under comparison.
        target: where the data lie.
        min_measured_s: seconds to measure for, where nothing says how often.
        admin_url: the testbed's admin route, None for a real service.
    """

    scenario: str
    client: Component
    target: Target
    min_measured_s: float
    admin_url: str | None

    @property
    def requires(self) -> tuple[str, ...]:
        """Import names of the packages whose versions go into the results."""
        return self.client.requires

    def write(self, directory: Path) -> None:
        """Write ``job.json`` into a job's directory."""
        (directory / JOB_FILE).write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, directory: Path) -> Self:
        """The job of which ``write`` left the description in ``directory``."""
        return cls.from_json(read_description(directory))

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Self:
        """The job with the given fields, nested values as plain mappings."""
        return cls(**{**fields, "client": component(fields["client"]), "target": Target(**fields["target"])})


def read_description(directory: Path) -> dict[str, Any]:
    """The fields of a job of any scenario, as ``job.json`` has them."""
    fields: dict[str, Any] = json.loads((directory / JOB_FILE).read_text(encoding="utf-8"))
    return fields


def component(fields: Mapping[str, Any]) -> Component:
    """The component of which ``asdict`` gave the fields, by way of JSON."""
    lists = {name: tuple(fields[name]) for name in ("requires", "search_path")}
    return Component(**{**fields, **lists})
