"""Where runs and baselines are, as every command of this package is told."""

from __future__ import annotations

import argparse
from pathlib import Path

from bucketbench.report.arguments import add_multirun

__all__ = ["add_places"]


def add_places(parser: argparse.ArgumentParser) -> None:
    """Add the options of a command."""
    add_multirun(parser)
    parser.add_argument(
        "--baselines",
        type=Path,
        default=Path("baselines"),
        metavar="DIR",
        help="directory of the baselines (default: baselines)",
    )
