"""``bucketbench history``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from bucketbench.errors import BucketbenchError, ResultsError, UsageError
from bucketbench.history.series import arrange_history, time_of
from bucketbench.history.wording import as_json, as_markdown, as_text
from bucketbench.report.arguments import add_form, add_multirun, add_relative_to, names_in
from bucketbench.report.runs import Run, by_scenario, every_run, load_run
from bucketbench.report.table import output_width
from bucketbench.scenarios import find_scenario
from bucketbench.visible import visible

__all__ = ["main"]


def main(argv: Sequence[str]) -> int:
    """Tell how figures went over runs.

    Args:
        argv: the arguments after ``bucketbench history``.

    Returns:
        0, or 2 where there is no history to tell; the reason is then on standard error.
    """
    try:
        arguments = _parser().parse_intermixed_args(argv)
    except SystemExit as ended:  # argparse has told why
        return ended.code if isinstance(ended.code, int) else 2
    try:
        runs, notes = _runs(arguments)
        groups = arrange_history(
            runs,
            figures=names_in(arguments.figure),
            clients=names_in(arguments.client),
            allowed=names_in(arguments.allow),
            relative_to=arguments.relative_to,
        )
        if not groups:
            raise ResultsError("none of the runs has such a client")
        if arguments.html is not None:
            from bucketbench.history.page import write_history

            write_history(groups, notes, arguments.html)
        if arguments.form == "json":
            text = json.dumps(as_json(groups, notes), indent=2, allow_nan=False)
        elif arguments.form == "markdown":
            text = as_markdown(groups)
        else:
            text = as_text(groups, width=output_width())
        sys.stdout.write(f"{text}\n")
        if arguments.form != "json":
            sys.stderr.write("".join(f"bucketbench history: {visible(note)}\n" for note in notes))
    except BucketbenchError as error:
        sys.stderr.write(f"bucketbench history: {visible(str(error))}\n")
        return 2
    return 0


def _runs(arguments: argparse.Namespace) -> tuple[list[Run], list[str]]:
    """The runs of which the history is, each of one scenario, and which were left out."""
    notes, runs = [], []
    # Of runs that are named each counts; among all that are there one may be broken.
    paths = list(arguments.runs) or every_run(arguments.multirun)
    for path in paths:
        try:
            run = load_run(path)
        except ResultsError as error:
            if arguments.runs:
                raise
            notes.append(f"left out: {error}")
            continue
        parts = [part for part in by_scenario(run) if not arguments.scenario or part.scenario in arguments.scenario]
        try:
            for part in parts:
                find_scenario(part.scenario)
        except UsageError as error:
            if arguments.runs:
                raise
            notes.append(f"left out: {path}: {error}")
            continue
        if parts and time_of(run) is None:
            notes.append(f"left out: {path} does not tell when it began")
            continue
        runs += parts
        notes += [f"{path.name}: {note}" for note in run.notes if parts]
    names = [(part.scenario, part.directory.resolve().name) for part in runs]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(
            f"two runs are called {'/'.join(twice)}: name each run once, and give directories names of their own"
        )
    if not runs:
        raise ResultsError(f"of {len(paths)} runs none is left: {'; '.join(notes) or 'they are of other scenarios'}")
    return runs, notes


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bucketbench history",
        description="Tell how each client's figures went over runs that measured the same, which run changed them, and "
        "which commit and versions changed with it.",
    )
    parser.add_argument(
        "runs", nargs="*", type=Path, metavar="RUN", help="directories of runs (default: all runs that are there)"
    )
    add_multirun(parser)
    parser.add_argument("--scenario", action="append", default=[], metavar="NAME", help="runs of this scenario alone")
    parser.add_argument("--client", action="append", default=[], metavar="NAME[,NAME]", help="these clients alone")
    parser.add_argument(
        "--figure",
        action="append",
        default=[],
        metavar="NAME[,NAME]",
        help="figures to follow (default: those by which the scenario compares clients)",
    )
    parser.add_argument(
        "--allow",
        action="append",
        default=[],
        metavar="KEY[,KEY]",
        help="what may differ between runs that are put together: parameters, such as network, and host for machines "
        "of several classes",
    )
    add_relative_to(parser)
    parser.add_argument(
        "--html", type=Path, metavar="FILE", help="also write a page with charts, which opens without a network"
    )
    add_form(parser)
    return parser
