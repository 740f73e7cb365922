"""Sends runs to a sink: at the end of a sweep, where it must cost no result, and by ``bucketbench push``."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from bucketbench.errors import BucketbenchError, UsageError
from bucketbench.job.description import Component
from bucketbench.progress import say
from bucketbench.secrecy import redacted, secret_values
from bucketbench.sinks.chosen import built_sink, chosen_sink
from bucketbench.sinks.document import read_run
from bucketbench.sinks.protocol import SinkError

__all__ = ["NOT_PUSHED", "deliver", "push_sweep", "tell_unpushed"]

NOT_PUSHED: Final = 3
"""Exit status of a sweep whose jobs all succeeded, and whose results are written but not in the sink."""


def deliver(component: Component, run: Path) -> list[str]:
    """Send a run to a sink.

    Args:
        component: the sink.
        run: the run's directory or its ``run_results.json``.

    Returns:
        What was done, and the command that gets the run back; a line each.

    Raises:
        UsageError: the sink is configured wrongly, or a package that it needs is missing.
        SinkError: it could not be done. The run's files are as they were in either case.
    """
    try:
        sink, document = built_sink(component), read_run(run)
        pushed = sink.push(document)
    except UsageError:
        raise
    except BucketbenchError as error:
        raise SinkError(redacted(str(error), secret_values())) from error
    except Exception as error:  # a sink may be anybody's, and whatever it raises must cost no result
        text = " ".join(f"{type(error).__name__}: {error}".split())
        raise SinkError(f"the sink {component.name} failed: {redacted(text, secret_values())}") from error
    planned = document.jobs_planned
    missing = f" of {planned}; the others have not ended" if planned is not None and planned > pushed.jobs else ""
    return [f"{document.run_id}: {pushed.jobs} jobs{missing}, in {pushed.where}", f"get it back: {pushed.command}"]


def push_sweep(chosen: Mapping[str, Any], run: Path, *, config_directories: tuple[str, ...] = ()) -> int:
    """Send a sweep's results to the sink that its configuration chooses, and say what came of it.

    Args:
        chosen: the keys of the configuration's group ``sink``, resolved.
        run: the sweep's directory.
        config_directories: where a sink of the user's own is found.

    Returns:
        0, also where no sink is chosen, or ``NOT_PUSHED``.
    """
    try:
        component = chosen_sink(chosen, config_directories=config_directories)
        for line in () if component is None else deliver(component, run):
            say(line)
    except BucketbenchError as error:
        say(f"bucketbench: NOT PUSHED to the sink: {error}")
        _tell_how(run)
        return NOT_PUSHED
    except KeyboardInterrupt:
        say("not pushed to the sink, or not all of it: interrupted")
        _tell_how(run)
        raise
    return 0


def tell_unpushed(chosen: Mapping[str, Any], run: Path) -> None:
    """Say of an interrupted sweep, which must end now, that its sink does not have it."""
    if chosen_sink(chosen) is not None:
        say(f"not pushed to the sink {chosen['name']}, since the sweep was interrupted")
        _tell_how(run)


def _tell_how(run: Path) -> None:
    say(f"the results are in {run}; send them by: bucketbench push {shlex.quote(str(run))}")
