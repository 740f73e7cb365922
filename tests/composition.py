"""The points of a sweep, composed and checked as the sweeper does, with none of them run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from unittest import mock

from bucketbench.configuration.settings import JobSettings
from bucketbench.sweep.entry import run_scenario
from bucketbench.sweep.sweep import Sweep


def points_of_scenario(scenario: str, *overrides: str, directory: Path | None = None) -> list[JobSettings]:
    """What Hydra and the sweeper make of a command line, in the order in which the jobs would run."""
    found: list[JobSettings] = []

    def compose(sweep: Sweep, arguments: Sequence[str]) -> None:
        found.extend(sweep._settings(point) for point in sweep._points(arguments).points)
        raise SystemExit(0)  # nothing is launched, and no result is written

    options = [] if directory is None else ["--config-dir", str(directory)]
    with mock.patch.object(Sweep, "run", compose):
        assert run_scenario(scenario, [*options, *overrides]) == 0
    return found
