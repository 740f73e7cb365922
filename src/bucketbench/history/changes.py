"""The changes of level in series of runs, and what else changed with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bucketbench.history.series import Observation, Series
from bucketbench.statistics import FEWEST_VALUES, Better, change_points

__all__ = ["LevelChange", "Trend", "trend_of"]


@dataclass(frozen=True, kw_only=True, slots=True)
class LevelChange:
    """One change of a series.

    Args:
        run: the first run of the new level.
        before: the last run of the old one.
        ratio: how many times the old level the new one is.
        chance: how often a change as clear would be found in runs that are alike, at most 0.05.
        word: ``better``, ``worse`` or ``different``.
        commits: of the run before and of the run, where they differ.
        versions: package, and its version before and after, where they differ.
    """

    run: Observation
    before: Observation
    ratio: float
    chance: float
    word: str
    commits: tuple[str | None, str | None] | None
    versions: Mapping[str, tuple[str | None, str | None]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Trend:
    """What a series says.

    Args:
        series: the series.
        known: its runs that have a value, in order of time.
        changes: its changes, in order of time.
        obstacle: why none can be told; None where they can.
    """

    series: Series
    known: tuple[Observation, ...]
    changes: tuple[LevelChange, ...]
    obstacle: str | None

    @property
    def medians(self) -> list[float]:
        """The value of each run that has one: the median of its repeats."""
        return [one.median for one in self.known if one.median is not None]


def trend_of(series: Series) -> Trend:
    """Find the changes of a series."""
    known = tuple(one for one in series.observations if one.values)
    medians = [one.median for one in known if one.median is not None]
    if len(known) < FEWEST_VALUES:
        obstacle = f"a change is told from {FEWEST_VALUES} runs on, and the series has {len(known)}"
        return Trend(series=series, known=known, changes=(), obstacle=obstacle)
    changes = [
        LevelChange(
            run=known[found.at],
            before=known[found.at - 1],
            ratio=found.ratio,
            chance=found.chance,
            word=_word(found.ratio, series.better),
            commits=_commits(known[found.at - 1], known[found.at]),
            versions=_versions(known[found.at - 1], known[found.at]),
        )
        for found in change_points(medians)
    ]
    return Trend(series=series, known=known, changes=tuple(changes), obstacle=None)


def _word(ratio: float, better: Better) -> str:
    if better is Better.NEITHER:
        return "different"
    return "better" if (ratio > 1) == (better is Better.HIGHER) else "worse"


def _commits(before: Observation, after: Observation) -> tuple[str | None, str | None] | None:
    return None if before.commit == after.commit else (before.commit, after.commit)


def _versions(before: Observation, after: Observation) -> dict[str, tuple[str | None, str | None]]:
    return {
        name: (before.versions.get(name), after.versions.get(name))
        for name in sorted({*before.versions, *after.versions})
        if before.versions.get(name) != after.versions.get(name)
    }
