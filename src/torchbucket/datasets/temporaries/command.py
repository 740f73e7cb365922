"""``torchbucket sweep-temporaries``: tidying up after processes that were killed."""

from __future__ import annotations

import argparse
import re
import sys
from typing import Final

from torchbucket.cli_options import add_store_options, store_config
from torchbucket.datasets.temporaries.names import TEMPORARIES_PREFIX
from torchbucket.datasets.temporaries.sweep import sweep_temporaries
from torchbucket.errors import ConfigError
from torchbucket.listing.commands.wording import shown, size_text
from torchbucket.uri import ObjectURI

__all__ = ["add_arguments", "run"]

_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the subcommand takes."""
    parser.add_argument(
        "uri",
        metavar="URI",
        help=f"the bucket, such as gs://bucket, for {TEMPORARIES_PREFIX!r} in it; or with another prefix of them",
    )
    parser.add_argument(
        "--older-than", metavar="AGE", default="24h", help="the least age, such as 90m, 24h or 7d; default: 24h"
    )
    parser.add_argument("--dry-run", action="store_true", help="remove nothing, and print what would be removed")
    add_store_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Sweep, and print each object and the sums."""
    age_s = _seconds(arguments.older_than)
    swept = sweep_temporaries(
        arguments.uri, older_than_s=age_s, dry_run=arguments.dry_run, config=store_config(arguments)
    )
    root = ObjectURI.parse(arguments.uri).root
    for info in swept.removed:
        sys.stdout.write(f"{shown(f'{root}/{info.key}')}\n")
    done = "would be removed" if arguments.dry_run else "removed"
    sys.stdout.write(
        f"{len(swept.removed):,} temporary objects {done}, {size_text(swept.removed_bytes)}; {swept.young:,} younger "
        f"than {arguments.older_than} and {swept.foreign:,} other objects left\n"
    )
    return 0


def _seconds(age: str) -> float:
    found = re.fullmatch(r"(\d{1,9})([smhd])", age)
    if found is None:
        raise ConfigError(f"--older-than takes a number and one of s, m, h and d, such as 24h; got {age!r}")
    return float(int(found[1]) * _UNITS[found[2]])
