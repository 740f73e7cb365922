"""What a sweep left behind, wherever it ran."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["NO_PAGE", "Finished", "read_results"]

NO_PAGE = "hydra.callbacks.results.html=false"
"""Spares a sweep the second that its charts take, in tests of other things."""


@dataclass(frozen=True, kw_only=True)
class Finished:
    """A sweep that has ended."""

    status: int
    out: str
    err: str
    directory: Path | None

    @property
    def results(self) -> dict[str, Any]:
        assert self.directory is not None, self.err
        return read_results(self.directory)

    @property
    def jobs(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.results["jobs"]
        return found

    def job(self, client: str) -> dict[str, Any]:
        (job,) = [job for job in self.jobs if job["client"] == client]
        return job


def read_results(directory: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((directory / "run_results.json").read_bytes())
    return found
