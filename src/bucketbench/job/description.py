"""One job as the measured process receives it: ``job.json``, and the names of the files in a job's directory.

``run_job`` writes the description, a fresh interpreter reads it (:mod:`bucketbench.worker`), and both share nothing
else. It holds no credential: those reach the measured process by its environment alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from bucketbench.clients.protocol import Target

__all__ = [
    "CLOCK_FILE",
    "HARNESS_VARIABLE",
    "JOB_FILE",
    "JOB_VARIABLE",
    "LOG_FILE",
    "OPERATIONS_FILE",
    "OUTCOME_FILE",
    "PROGRESS_FILE",
    "USAGE_FILE",
    "Component",
    "Description",
    "Job",
    "component",
    "rank_directories",
    "rank_directory",
]

JOB_FILE: Final = "job.json"
LOG_FILE: Final = "benchmark.log"
OPERATIONS_FILE: Final = "operations.jsonl"
USAGE_FILE: Final = "usage.jsonl"
OUTCOME_FILE: Final = "outcome.json"
PROGRESS_FILE: Final = "progress.json"
CLOCK_FILE: Final = "clock.json"

JOB_VARIABLE: Final = "BUCKETBENCH_JOB"
"""An environment variable of every process that a job has started, and of no other."""

HARNESS_VARIABLE: Final = "BUCKETBENCH_HARNESS"
"""An environment variable of the measured process: the ids of the harness's own processes, with spaces between."""

_RANKS: Final = "ranks"


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
        return self.target.rpartition(".")[0]


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """What the measured process needs to know whatever the scenario; each scenario adds its own.

    Args:
        client: the client under comparison.
        target: where the data lie.
        min_measured_s: seconds to measure for, where nothing says how often.
        admin_url: the testbed's admin route, None for a real service.
    """

    client: Component
    target: Target
    min_measured_s: float
    admin_url: str | None

    @property
    def requires(self) -> tuple[str, ...]:
        """Import names of the packages whose versions go into the results."""
        return self.client.requires

    @property
    def own_directories(self) -> tuple[str, ...]:
        """Directories that the measured process makes. They are removed when it is over, however it ended."""
        return ()

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Self:
        """The job with the given fields, nested values as plain mappings."""
        return cls(**{**fields, "client": component(fields["client"]), "target": Target(**fields["target"])})


@dataclass(frozen=True, kw_only=True, slots=True)
class Description:
    """The content of ``job.json``.

    Args:
        measurement: dotted path of the function that measures.
        search_path: directories on ``sys.path`` to find it, after the others.
        requires: import names of the packages whose versions go into the results.
        job: the fields of the scenario's own kind of :class:`Job`.
    """

    measurement: str
    search_path: tuple[str, ...]
    requires: tuple[str, ...]
    job: Mapping[str, Any]

    @classmethod
    def of(cls, job: Job, *, measurement: str, search_path: Sequence[str] = ()) -> Self:
        """The description of a job."""
        return cls(measurement=measurement, search_path=tuple(search_path), requires=job.requires, job=asdict(job))

    def write(self, directory: Path) -> None:
        """Write ``job.json`` into a job's directory."""
        (directory / JOB_FILE).write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, directory: Path) -> Self:
        """What ``write`` left in a job's directory."""
        fields = json.loads((directory / JOB_FILE).read_text(encoding="utf-8"))
        return cls(**{**fields, **{name: tuple(fields[name]) for name in ("search_path", "requires")}})


def rank_directory(directory: Path, *, rank: int, world_size: int) -> Path:
    """Where a rank leaves its records and its outcome: the job's own directory where it is the only one."""
    return directory if world_size == 1 else directory / _RANKS / str(rank)


def rank_directories(directory: Path) -> list[Path]:
    """The directories of a job's ranks, that of rank 0 first, as far as the ranks have made them."""
    found = [path for path in (directory / _RANKS).glob("*") if path.name.isdecimal()]
    return sorted(found, key=lambda path: int(path.name)) or [directory]


def component(fields: Mapping[str, Any]) -> Component:
    """The component of which ``asdict`` gave the fields, by way of JSON."""
    lists = {name: tuple(fields[name]) for name in ("requires", "search_path")}
    return Component(**{**fields, **lists})
