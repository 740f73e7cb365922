"""The results of a whole sweep, written again after each job, so that no end of the sweep costs them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bucketbench.results.files import RUN_RESULTS_FILE, SCHEMA_VERSION, read_job_results, write_json

__all__ = ["RunResults", "now"]


def now() -> str:
    """The time of day in UTC, as ISO 8601 with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


@dataclass(frozen=True, kw_only=True, slots=True)
class RunResults:
    """Writes ``run_results.json`` of one sweep from the ``job_results.json`` files below its directory.

    Args:
        directory: the sweep's directory.
        scenario: the scenario's name.
        command: the overrides as the user gave them.
        jobs_planned: how many jobs the sweep consists of.
        started_at: when it began.
        host: see :func:`bucketbench.provenance.host.describe_host`.
        versions: of Python, torchbucket and Hydra in the sweep's process; each job has its own.
        commit: of this program's source, None where it is not known.
    """

    directory: Path
    scenario: str
    command: tuple[str, ...]
    jobs_planned: int
    started_at: str
    host: Mapping[str, Any]
    versions: Mapping[str, str]
    commit: str | None

    def write(self, *, ended: bool, interrupted: bool = False) -> dict[str, Any]:
        """Write the file and return what it holds.

        Args:
            ended: whether no further job will follow; until then ``ended_at`` is null.
            interrupted: whether the sweep was ended before its last job.

        Raises:
            ResultsError: a job's file is damaged, or the file could not be written.
        """
        content: dict[str, Any] = {
            "schema_version": SCHEMA_VERSION,
            "scenario": self.scenario,
            "run_id": f"{self.scenario}/{self.directory.name}",
            "started_at": self.started_at,
            "ended_at": now() if ended else None,
            "interrupted": interrupted,
            "command": list(self.command),
            "host": dict(self.host),
            "versions": dict(self.versions),
            "commit": self.commit,
            "jobs_planned": self.jobs_planned,
            "jobs": read_job_results(self.directory),
        }
        write_json(self.directory / RUN_RESULTS_FILE, content)
        return content
