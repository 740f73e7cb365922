"""What a sweep would do, in words: its points, what is swept, and how long it may take by earlier runs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Final

import msgspec

from bucketbench.configuration.settings import JobSettings
from bucketbench.results.files import RUN_RESULTS_FILE
from bucketbench.results.job import JobResult, digest
from bucketbench.units import format_duration

__all__ = ["estimate", "plan", "values_told"]

_RUNS_READ: Final = 10  # of the earlier ones; further back the machine and the code are others


def plan(
    points: Sequence[tuple[str, ...]], *, kinds: Sequence[int], settings: Sequence[JobSettings], runs: Path
) -> list[str]:
    """The lines of a dry run.

    Args:
        points: the overrides of each job, in the order in which they would run.
        kinds: for each job the place of its settings in ``settings``.
        settings: of each kind of job.
        runs: the directory of the scenario's earlier runs, from which the estimate is.
    """
    clients = list(dict.fromkeys(one.client.name for one in settings))
    lines = [f"{settings[0].scenario} scenario: {len(points)} jobs of {', '.join(clients)}; nothing is run or made"]
    if settings[0].config["label"] is not None:
        lines.append(f"label: {settings[0].config['label']}")
    lines += values_told(points)
    lines.append("points, and how many repeats of each:")
    repeats = Counter(kinds)
    for kind, count in repeats.items():
        point = points[kinds.index(kind)]
        lines.append(f"  {count} x {' '.join(text for text in _told(point) if not text.startswith('repeat='))}")
    return [*lines, estimate(kinds, settings, runs)]


def values_told(points: Iterable[Sequence[str]]) -> list[str]:
    """A line for each key of some points, with the values that it has."""
    values: dict[str, dict[str, None]] = {}
    for point in points:
        for text in _told(point):
            key, _, value = text.partition("=")
            values.setdefault(key.lstrip("+"), {})[value] = None
    return [f"{key}: {', '.join(found)}" for key, found in values.items()]


def _told(point: Sequence[str]) -> list[str]:
    return [text for text in point if not text.startswith("label=")]


def estimate(kinds: Sequence[int], settings: Sequence[JobSettings], runs: Path) -> str:
    """How long jobs may take, in words.

    Args:
        kinds: for each job the place of its settings in ``settings``.
        settings: of each kind of job.
        runs: the directory of earlier runs.
    """
    earlier = _durations_s(runs)
    known = {
        kind: median(found)
        for kind, one in enumerate(settings)
        if (found := earlier.get((digest(one.parameters), digest(one.client_options), one.client.name)))
    }
    if not known:
        return f"time: not known, as no earlier run in {runs} has one of these points"
    total_s = sum(known.get(kind, median(known.values())) for kind in kinds)
    partly = f"; {len(settings) - len(known)} of the points never ran" if len(known) < len(settings) else ""
    return f"time: about {format_duration(total_s)}, estimated from earlier runs{partly}"


def _durations_s(runs: Path) -> dict[tuple[str, str, str], list[float]]:
    """How long jobs took in earlier runs, by the digests of what they measured and by their client."""
    found: dict[tuple[str, str, str], list[float]] = {}
    for path in sorted(runs.glob(f"*/{RUN_RESULTS_FILE}"))[-_RUNS_READ:]:
        try:
            results = [msgspec.convert(job, type=JobResult) for job in json.loads(path.read_bytes())["jobs"]]
        except (OSError, ValueError, KeyError, TypeError, msgspec.ValidationError):
            continue  # of another version, or damaged: it only costs an estimate
        for result in results:
            if result.took_s is not None and not result.interrupted:
                key = (digest(result.parameters), digest(result.client_options), result.client)
                found.setdefault(key, []).append(result.took_s)
    return found
