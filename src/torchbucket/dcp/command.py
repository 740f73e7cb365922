"""``torchbucket checkpoints``: which distributed checkpoints a run has, and removing what is not needed."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Final

from torchbucket.cli_options import add_store_options, store_config
from torchbucket.dcp.lifecycle import StoredCheckpoint, checkpoints, latest, prune, verify
from torchbucket.listing.commands.wording import json_line, shown, size_text

__all__ = ["add_arguments", "run"]

_NOTHING_FOUND: Final = 1
_ACTIONS: Final = {
    "list": "print all of them, the oldest first",
    "latest": "print the address of the newest complete one; exit status 1 where there is none",
    "prune": "remove all but the newest complete ones, and what saves that never ended have left",
    "verify": "read every file of one and compare its checksum; exit status 1 where any differs",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the subcommand takes."""
    actions = parser.add_subparsers(metavar="ACTION", required=True, dest="action")
    for name, summary in _ACTIONS.items():
        action = actions.add_parser(name, help=summary, description=f"{summary.capitalize()}.")
        of_one = name == "verify"
        action.add_argument(
            "uri", metavar="URI", help="the checkpoint" if of_one else "the directory that the checkpoints are in"
        )
        if name == "prune":
            action.add_argument("--keep", type=int, required=True, metavar="N", help="how many complete ones stay")
            action.add_argument("--protect", action="append", default=[], metavar="NAME", help="one that stays, too")
            action.add_argument("--grace-s", type=float, default=3600.0, metavar="S", help="see torchbucket.dcp.prune")
            action.add_argument("--dry-run", action="store_true", help="only print what would be removed")
        if name in ("list", "prune"):
            action.add_argument("--json", action="store_true", help="print one JSON document a line")
        add_store_options(action)


def run(arguments: argparse.Namespace) -> int:
    """Do it and print."""
    config = store_config(arguments)
    if arguments.action == "latest":
        found = latest(arguments.uri, config=config)
        if found is None:
            sys.stderr.write(f"torchbucket: {arguments.uri}: no complete checkpoint\n")
            return _NOTHING_FOUND
        sys.stdout.write(f"{shown(found)}\n")
        return 0
    if arguments.action == "verify":
        wrong = verify(arguments.uri, config=config)
        sys.stdout.write("".join(f"{shown(line)}\n" for line in wrong) or "all files are as they were written\n")
        return _NOTHING_FOUND if wrong else 0
    if arguments.action == "prune":
        listed: Sequence[StoredCheckpoint] = prune(
            arguments.uri,
            arguments.keep,
            protect=arguments.protect,
            grace_s=arguments.grace_s,
            dry_run=arguments.dry_run,
            config=config,
        )
    else:
        listed = checkpoints(arguments.uri, config=config)
    write = _json if arguments.json else _text
    sys.stdout.write("".join(map(write, listed)))
    return 0


def _json(checkpoint: StoredCheckpoint) -> str:
    return json_line(asdict(checkpoint))


def _text(checkpoint: StoredCheckpoint) -> str:
    modified = checkpoint.modified_s
    when = "-" if modified is None else datetime.fromtimestamp(modified, UTC).strftime("%Y-%m-%d %H:%M:%S")
    state = "complete" if checkpoint.is_complete else f"not complete: {checkpoint.why_not}"
    return (
        f"{shown(checkpoint.name)}  {checkpoint.files:,} files  {size_text(checkpoint.size_bytes)}  {when}  "
        f"{shown(state)}\n"
    )
