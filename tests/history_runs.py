"""Result files of many runs over days, for the tests of the history."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from report_results import job, write_run

__all__ = ["write_history"]


def write_history(
    directory: Path, *, runs: int = 12, drop_at: int = 7, drop: float = 0.8, seed: int = 1, **changes: Any
) -> list[Path]:
    """Write runs of two clients, of which ``quick`` drops to a share of its throughput, with the next version.

    Args:
        directory: where they go, each in a directory named by its time.
        runs: how many.
        drop_at: the first run after the drop.
        drop: by how many times.
        seed: of what differs from run to run by chance, some percent.
        changes: fields of the results of every job.

    Returns:
        The runs' directories, in order of time.
    """
    chance = random.Random(seed)
    written = []
    for number in range(runs):
        at = f"2026-11-{1 + number:02}T10:00:00Z"
        slower = drop if number >= drop_at else 1.0
        version = "1.3.0" if number >= drop_at else "1.2.9"
        jobs = [
            job(
                client,
                repeat,
                speed * chance.gauss(1, 0.02),
                **{
                    "started_at": at,
                    "versions": {"python": "3.11.7", "quickstore": version}
                    if client == "quick"
                    else {"python": "3.11.7"},
                    "commit": f"{number:02}" * 10,
                    **changes,
                },
            )
            for repeat in range(4)
            for client, speed in (
                ("quick", 100 * slower * chance.gauss(1, 0.01)),
                ("steady", 60 * chance.gauss(1, 0.01)),
            )
        ]
        path = directory / "dataset" / f"2026-11-{1 + number:02}_10-00-00"
        written.append(write_run(path, jobs, started_at=at))
    return written
