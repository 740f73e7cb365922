"""What a command names as a side of a comparison: a run, a baseline, or one client of either."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bucketbench.errors import ResultsError, UsageError
from bucketbench.report.runs import Run, by_scenario, load_run
from bucketbench.results.files import RUN_RESULTS_FILE
from bucketbench.visible import visible

__all__ = ["Side", "baselines", "keep_baseline", "select"]

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)


@dataclass(frozen=True, kw_only=True, slots=True)
class Side:
    """One side of a comparison.

    Args:
        name: as the command has it.
        run: what was found.
        client: the client that alone is compared; None for all.
    """

    name: str
    run: Run
    client: str | None

    @property
    def title(self) -> str:
        """The side in a few words: its name, and the run's label and commit as far as it has them."""
        commit = self.run.commit
        known = [self.run.label, commit and f"{commit[:12]}{'-dirty' * commit.endswith('-dirty')}"]
        told = ", ".join(" ".join(word.split()) for word in known if word)
        return f"{visible(self.name)} ({told})" if told else visible(self.name)


def select(text: str, directory: Path) -> Side:
    """Find a side.

    Args:
        text: ``RUN`` or ``RUN@CLIENT``, where RUN is a run's directory, its ``run_results.json``, or a baseline.
        directory: where the baselines are.

    Raises:
        ResultsError: there is no such run, or none of its jobs is of that client.
        UsageError: it has jobs of several scenarios, or is both a baseline and something else.
    """
    name, at, client = text.rpartition("@") if "@" in text and not Path(text).exists() else (text, "", "")
    kept = directory / name / RUN_RESULTS_FILE
    is_there = name != "" and Path(name).exists()
    is_baseline = _NAME.fullmatch(name) is not None and kept.exists()
    if is_baseline and is_there:
        raise UsageError(f"{name} is a baseline and a path too: name {kept}, or ./{name}")
    if not name:
        raise UsageError(f"{text!r} names no run before the @")
    if not is_baseline and not is_there:
        known = ", ".join(baselines(directory)) or "none"
        raise ResultsError(f"there is no run at {name}, and no baseline of that name in {directory} (there: {known})")
    run = load_run(kept if is_baseline else Path(name))
    if len(by_scenario(run)) > 1:
        raise UsageError(f"{name} has jobs of several scenarios; name one run of each scenario")
    clients = dict.fromkeys(job.client for job in run.jobs)
    if at and client not in clients:
        raise ResultsError(f"{name} has no client {client!r}; it has {', '.join(clients)}")
    return Side(name=text, run=run, client=client or None)


def baselines(directory: Path) -> list[str]:
    """The names of the baselines in a directory."""
    return sorted(file.parent.name for file in directory.glob(f"*/{RUN_RESULTS_FILE}"))


def keep_baseline(name: str, run: Path, directory: Path, *, replace: bool) -> Path:
    """Keep a run's results under a name, and return where.

    Raises:
        UsageError: it is no name, or taken.
        ResultsError: there is no whole run, or its file cannot be copied.
    """
    if _NAME.fullmatch(name) is None:
        raise UsageError(f"{name!r} is no name of a baseline: letters, digits and ._- after a letter or digit")
    load_run(run)  # which says what is wrong with it
    if run.is_dir() and not (run / RUN_RESULTS_FILE).exists():
        raise ResultsError(
            f"{run} has no {RUN_RESULTS_FILE}, as its sweep was interrupted or still runs: complete it with "
            f"bucketbench resume {run}"
        )
    source = run / RUN_RESULTS_FILE if run.is_dir() else run
    target = directory / name / RUN_RESULTS_FILE
    if target.exists() and not replace:
        raise UsageError(f"{target} is there already; --replace takes its place")
    unfinished = target.with_name(f".{RUN_RESULTS_FILE}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, unfinished)
        unfinished.replace(target)
    except OSError as error:
        raise ResultsError(f"{source} could not be kept as {target}: {error.strerror or error}") from error
    return target
