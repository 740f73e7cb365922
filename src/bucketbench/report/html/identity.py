"""Names of the parts of a page that stay the same however often it is made, so that a link to one keeps its meaning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bucketbench.report.runs import Run
from bucketbench.results.job import JobResult, digest

__all__ = ["client_digest", "experiment_digest", "part_id"]


def experiment_digest(parameters: Mapping[str, Any]) -> str:
    """The digest of a parameter set, as results have it."""
    return digest(parameters)


def client_digest(result: JobResult) -> str:
    """The digest of a client's configuration, as results have it."""
    return digest(result.client_options)


def part_id(kind: str, run: Run, *names: str) -> str:
    """The ``id`` of a part of the page.

    Args:
        kind: a letter that tells parts of several kinds apart.
        run: that it belongs to.
        names: what tells it from others of its kind within the run.
    """
    return f"{kind}{digest({'run': [run.scenario, run.directory.resolve().name, run.started_at], 'names': names})[:8]}"
