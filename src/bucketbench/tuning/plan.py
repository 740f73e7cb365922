"""What a search would do, in words."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bucketbench.configuration.settings import JobSettings
from bucketbench.sweep.plan import estimate, values_told
from bucketbench.tuning.options import SearchOptions
from bucketbench.tuning.space import Space

__all__ = ["search_plan"]


def search_plan(
    space: Space, options: SearchOptions, *, figure: str, settings: Sequence[JobSettings], runs: Path
) -> list[str]:
    """The lines of a dry run.

    Args:
        space: what is searched.
        options: how.
        figure: name of the figure that is to be as high as it can.
        settings: the reference, and settings of which every value is one.
        runs: the directory of the scenario's earlier runs, from which the estimate is.
    """
    trials, rounds = options.most_trials(space.size), options.most_rounds(space.size)
    finalists, repeats = min(options.finalists, trials) + 1, len(options.last_repeats(space.repeats))
    jobs = (trials + rounds - 1) * options.repeats + finalists * repeats
    limit = "" if options.memory_limit is None else f" within {options.memory_limit} of memory"
    lines = [
        f"{settings[0].scenario} scenario: a search of {trials} of {space.size} settings for the highest {figure}"
        f"{limit}; nothing is run or made"
    ]
    if settings[0].config["label"] is not None:
        lines.append(f"label: {settings[0].config['label']}")
    lines += values_told([space.fixed, *([text] for texts in space.searched.values() for text in texts)])
    lines.append(
        f"at most {jobs} jobs in {rounds} rounds, in each of which the configuration as it stands is measured too: of "
        f"each setting {options.repeats}, of the last {finalists} {repeats}"
    )
    kinds = [number % len(settings) for number in range(jobs)]
    return [*lines, estimate(kinds, settings, runs)]
