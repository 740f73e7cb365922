"""What the jobs of a run share: ``run.json``, from which any process can tell what the run is and write its results."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, Final, Self

from bucketbench.errors import ResultsError
from bucketbench.provenance.host import describe_host, git_commit
from bucketbench.results.files import RUN_RESULTS_FILE, SCHEMA_VERSION, read_job_results, write_json
from bucketbench.secrecy import home_directories, secret_values, without_home, without_secrets

__all__ = ["RECORD_FILE", "RunRecord", "now", "run_versions"]

RECORD_FILE: Final = "run.json"


def now() -> str:
    """The time of day in UTC, as ISO 8601 with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


@dataclass(frozen=True, kw_only=True, slots=True)
class RunRecord:
    """A run, whose jobs' results lie below its directory.

    Args:
        directory: the run's directory.
        scenario: the scenario's name.
        command: the overrides as the user gave them.
        jobs_planned: how many jobs the run consists of.
        varying: the keys that have several values in the run, but the client and the repeat.
        testbeds: those that run for it, see :meth:`bucketbench.job.testbeds.Testbeds.running`.
        started_at: when it began.
        interrupted: whether it was ended before its last job.
        resumed_at: when it was begun again after an interruption, each time.
        label: the words by which reports tell it from others, None where it has none.
        host: see :func:`bucketbench.provenance.host.describe_host`.
        versions: of Python, torchbucket and Hydra in the run's process; each job has its own.
        commit: of this program's source, None where it is not known.
    """

    directory: Path
    scenario: str
    command: tuple[str, ...]
    jobs_planned: int
    varying: tuple[str, ...] = ()
    testbeds: tuple[Mapping[str, Any], ...] = ()
    started_at: str = field(default_factory=now)
    interrupted: bool = False
    resumed_at: tuple[str, ...] = ()
    label: str | None = None
    host: Mapping[str, Any] = field(default_factory=describe_host)
    versions: Mapping[str, str] = field(default_factory=lambda: run_versions())
    commit: str | None = field(default_factory=git_commit)

    @classmethod
    def read(cls, directory: Path) -> Self | None:
        """The record that ``write`` left in a directory, None where there is none.

        Raises:
            ResultsError: it is damaged.
        """
        path = directory / RECORD_FILE
        try:
            fields = json.loads(path.read_bytes())
            lists = {name: tuple(fields.get(name, ())) for name in ("command", "varying", "testbeds", "resumed_at")}
            return cls(**{**fields, **lists, "directory": directory})
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ResultsError(f"{path} cannot be read: {error}") from error

    def write(self) -> None:
        """Write ``run.json``.

        Raises:
            ResultsError: it could not be written.
        """
        fields = {name: value for name, value in asdict(self).items() if name != "directory"}
        write_json(self.directory / RECORD_FILE, without_secrets(fields, secret_values()))

    def results(self, *, ended: bool) -> dict[str, Any]:
        """The content of ``run_results.json``, from the ``job_results.json`` files below the directory.

        Args:
            ended: whether no further job will follow; until then ``ended_at`` is null.

        Raises:
            ResultsError: a job's file is damaged.
        """
        return {
            "schema_version": SCHEMA_VERSION,
            "scenario": self.scenario,
            "run_id": f"{self.scenario}/{self.directory.name}",
            "started_at": self.started_at,
            "ended_at": now() if ended else None,
            "interrupted": self.interrupted,
            "resumed_at": list(self.resumed_at),
            "label": without_home(without_secrets(self.label, secret_values()), home_directories()),
            "command": without_home(without_secrets(self.command, secret_values()), home_directories()),
            "host": dict(self.host),
            "versions": dict(self.versions),
            "commit": self.commit,
            "jobs_planned": self.jobs_planned,
            "jobs": read_job_results(self.directory),
        }

    def write_results(self, *, ended: bool) -> dict[str, Any]:
        """Write ``run_results.json``, see ``results``, and return its content.

        Raises:
            ResultsError: a job's file is damaged, or the file could not be written.
        """
        content = self.results(ended=ended)
        write_json(self.directory / RUN_RESULTS_FILE, content)
        return content


def run_versions() -> dict[str, str]:
    """The versions of what composes, prepares and gathers: Python, torchbucket and Hydra."""
    packages: Sequence[str] = ("torchbucket", "hydra-core")
    return {"python": platform.python_version(), **{name: metadata.version(name) for name in packages}}
