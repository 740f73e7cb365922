"""``torchbucket sweep-temporaries``: tidying up after processes that were killed."""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import replace
from typing import Final

from torchbucket.cli_options import add_store_options, store_config
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
        help="the bucket, all of which is listed, or with the prefix to look under, such as "
        "gs://bucket/torchbucket-temporaries/",
    )
    parser.add_argument(
        "--older-than", metavar="AGE", default="24h", help="the least age, such as 90m, 24h or 7d; default: 24h"
    )
    parser.add_argument(
        "--uploads", action="store_true", help="abort all uploads in parts of that age, whoever has begun them"
    )
    parser.add_argument("--dry-run", action="store_true", help="remove nothing, and print what would be removed")
    add_store_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Sweep, and print each object and the sums."""
    age_s = _seconds(arguments.older_than)
    swept = sweep_temporaries(
        arguments.uri,
        older_than_s=age_s,
        uploads=arguments.uploads,
        dry_run=arguments.dry_run,
        config=store_config(arguments),
    )
    location = ObjectURI.parse(arguments.uri)
    for key in (*(info.key for info in swept.removed), *(upload.key for upload in swept.aborted)):
        sys.stdout.write(f"{shown(str(replace(location, key=key)))}\n")
    would = "would be " if arguments.dry_run else ""
    sys.stdout.write(
        f"{len(swept.removed):,} temporary objects {would}removed, {size_text(swept.removed_bytes)}; "
        f"{len(swept.aborted):,} open uploads {would}aborted; {swept.young:,} younger than {arguments.older_than} "
        "left\n"
    )
    return 0


def _seconds(age: str) -> float:
    found = re.fullmatch(r"(\d{1,9})([smhd])", age)
    if found is None:
        raise ConfigError(f"--older-than takes a number and one of s, m, h and d, such as 24h; got {age!r}")
    return float(int(found[1]) * _UNITS[found[2]])
