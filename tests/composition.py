"""The points of a sweep, composed and checked as the sweeper does, with none of them run."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

from omegaconf import OmegaConf

from bucketbench.configuration.directory import find_conf_directory
from bucketbench.configuration.settings import JobSettings
from bucketbench.job.composed import settings_of
from bucketbench.scenarios import find_scenario
from bucketbench.sweep.entry import run_scenario
from bucketbench.sweep.sweep import Sweep

__all__ = ["changed", "points_of_scenario", "swept_by_scenario", "swept_with", "with_each_option"]


def points_of_scenario(scenario: str, *overrides: str, directory: Path | None = None) -> list[JobSettings]:
    """What Hydra and the sweeper make of a command line, in the order in which the jobs would run.

    One composition takes an eighth of a second, so that each is kept. Where only the order matters, `swept_by_scenario`
    does without.
    """
    return list(_composed(scenario, overrides, directory, find_conf_directory(scenario)))


def swept_by_scenario(scenario: str, *overrides: str) -> list[dict[str, str]]:
    """The values that a command line sweeps, as text, in the order in which the jobs would run."""
    points: list[dict[str, str]] = []

    def note(sweep: Sweep, arguments: Sequence[str]) -> None:
        points.extend(dict(text.split("=", 1) for text in point) for point in sweep._points(arguments).points)

    swept_with(scenario, overrides, note)
    return points


def changed(settings: JobSettings, override: str, value: Any) -> JobSettings:
    """The settings with another value of one key, checked; raise what a sweep with that value is refused for."""
    config = copy.deepcopy(dict(settings.config))
    *groups, key = override.split(".")
    node = config
    for group in groups:
        node = node[group]
    node[key] = value
    return replace(settings, config=config)


def with_each_option(settings: JobSettings, group: str) -> list[JobSettings]:
    """The settings with each option of a group instead, such as each client, in the order of the files' names.

    Merged as Hydra does, whose composition of each takes fifty times as long: those are for the night.
    """
    scenario = find_scenario(settings.scenario)
    conf = find_conf_directory(scenario.name)
    folder = conf / (scenario.clients or scenario.name) / group if group == "client" else conf / group
    schema = OmegaConf.structured(getattr(scenario.settings.schema(), group))
    found = []
    for path in sorted(folder.glob("*.yaml"), key=lambda path: path.stem):
        merged = OmegaConf.merge(schema, OmegaConf.load(path))
        found.append(changed(settings, group, OmegaConf.to_container(merged, resolve=True)))
    return found


@cache
def _composed(scenario: str, overrides: tuple[str, ...], directory: Path | None, conf: Path) -> tuple[JobSettings, ...]:
    found: list[JobSettings] = []

    def compose(sweep: Sweep, arguments: Sequence[str]) -> None:
        for point in sweep._points(arguments).points:
            composed = sweep.composed(point)
            found.append(settings_of(composed, composed.hydra))

    swept_with(scenario, ([] if directory is None else ["--config-dir", str(directory)]) + list(overrides), compose)
    return tuple(found)


def swept_with(scenario: str, arguments: Sequence[str], note: Callable[[Sweep, Sequence[str]], None]) -> None:
    """Have a function see the sweep that a command line makes, and its overrides, in place of running it."""

    def run(sweep: Sweep, overrides: Sequence[str]) -> None:
        note(sweep, overrides)
        raise SystemExit(0)  # nothing is launched, and no result is written

    with mock.patch.object(Sweep, "run", run):
        assert run_scenario(scenario, arguments) == 0
