"""``torchbucket manifest``: list once, read by many."""

from __future__ import annotations

import argparse
import sys

from torchbucket.cli_options import add_store_options, store_config
from torchbucket.listing.commands.wording import check_found, shown, size_text
from torchbucket.listing.manifest import Manifest, manifest_place
from torchbucket.uri import ObjectURI

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the subcommand takes."""
    parser.add_argument("uri", metavar="URI", help="a prefix, such as s3://bucket/train/; or a path")
    parser.add_argument(
        "out", metavar="OUT", help="the file to write: a path, or an address such as s3://bucket/m.parquet"
    )
    parser.add_argument("--no-versions", action="store_true", help="leave out the versions that reads can be pinned to")
    add_store_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """List and write."""
    config = store_config(arguments)
    place = manifest_place(arguments.out)  # A mistake in it is found before a long listing.
    manifest = Manifest.from_prefix(arguments.uri, config=config, versions=not arguments.no_versions)
    check_found(manifest.listing, ObjectURI.parse(arguments.uri))
    # The options are about the prefix's provider; another one is reached by its defaults.
    same = place.scheme == ObjectURI.parse(arguments.uri).scheme
    manifest.write(str(place), config=config if same else None)
    total = int(manifest.listing.sizes_bytes.sum())
    sys.stdout.write(f"{len(manifest.listing):,} objects, {size_text(total)}, in {shown(str(place))}\n")
    return 0
