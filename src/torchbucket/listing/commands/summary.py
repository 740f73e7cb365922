"""``torchbucket summary``: counts and sizes of a prefix, or of a manifest without listing anything."""

from __future__ import annotations

import argparse
import sys

from torchbucket.cli_options import add_store_options, store_config
from torchbucket.listing.collect import list_objects
from torchbucket.listing.commands.wording import check_found, summary_text
from torchbucket.listing.manifest import Manifest
from torchbucket.listing.summary import Summary
from torchbucket.store import open_store
from torchbucket.uri import ObjectURI

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the subcommand takes."""
    parser.add_argument("uri", metavar="URI|MANIFEST", help="a prefix, a path, or a manifest: what ends with .parquet")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="json prints one document")
    add_store_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Count and print."""
    config = store_config(arguments)
    if arguments.uri.endswith(".parquet"):
        summary = Manifest.read(arguments.uri, config=config).summary()
    else:
        location = ObjectURI.parse(arguments.uri)
        listing = list_objects(open_store(location, config), location.key)
        check_found(listing, location)
        summary = Summary.of(listing, prefix=location.key)
    sys.stdout.write(summary_text(summary, arguments.uri, in_json=arguments.format == "json"))
    return 0
