"""Options that several commands about runs have."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from bucketbench.cost.pricing import SAME_REGION

__all__ = ["add_form", "add_multirun", "add_prices", "add_relative_to", "names_in"]


def add_multirun(parser: argparse.ArgumentParser) -> None:
    """Let a command be told where the runs are, of which it takes the newest."""
    parser.add_argument(
        "--multirun",
        type=Path,
        default=Path("multirun"),
        metavar="DIR",
        help="directory of all runs, searched for the newest one (default: multirun)",
    )


def add_prices(parser: argparse.ArgumentParser) -> None:
    """Let a command be told by which prices clients' work is priced."""
    parser.add_argument(
        "--prices",
        action="append",
        default=[],
        metavar="NAME",
        help="price the clients' requests and bytes by this list, a file of conf/prices or a path of your own, and "
        "show it in the table of a report too (default: the service's standard class)",
    )
    parser.add_argument(
        "--route", metavar="WAY", help=f"the way of what is read, as the price list has it (default: {SAME_REGION})"
    )


def add_relative_to(parser: argparse.ArgumentParser) -> None:
    """Let a command be told a client that each value is held against."""
    parser.add_argument(
        "--relative-to",
        metavar="CLIENT",
        help="divide each value by this client's of the same repeat, so that a machine that was faster as a whole does "
        "not count",
    )


def add_form(parser: argparse.ArgumentParser) -> None:
    """Let a command be told what it prints: ``form`` is ``text``, ``json`` or ``markdown``."""
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", dest="form", action="store_const", const="json", help="print JSON")
    form.add_argument("--markdown", dest="form", action="store_const", const="markdown", help="print Markdown")
    parser.set_defaults(form="text")


def names_in(given: Sequence[str]) -> list[str]:
    """The names of an option that may be given several times, with commas between names."""
    return [name for names in given for name in names.split(",")]
