"""``torchbucket list``: the objects under a prefix."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from torchbucket.cli_options import add_store_options, store_config
from torchbucket.listing.collect import list_objects
from torchbucket.listing.columns import Listing
from torchbucket.listing.commands.wording import check_found, json_line, shown, summary_text
from torchbucket.listing.summary import Summary
from torchbucket.store import open_store
from torchbucket.uri import ObjectURI

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the subcommand takes."""
    parser.add_argument(
        "uri",
        metavar="URI",
        help="a prefix (plain text), such as s3://bucket/train/; or a path",
    )
    parser.add_argument("--summary", action="store_true", help="print counts and sizes in place of the objects")
    parser.add_argument(
        "--format",
        choices=("text", "json"),
        default="text",
        help="json prints one object a line, every name exactly; text escapes what a terminal cannot show",
    )
    add_store_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """List and print."""
    location = ObjectURI.parse(arguments.uri)
    store = open_store(location, store_config(arguments))
    in_json = arguments.format == "json"
    listing = list_objects(store, location.key, versions=in_json and not arguments.summary)
    check_found(listing, location)
    if arguments.summary:
        sys.stdout.write(summary_text(Summary.of(listing, prefix=location.key), str(location), in_json=in_json))
        return 0
    for line in _json_lines(listing) if in_json else _text_lines(listing):
        sys.stdout.write(line)
    return 0


def _json_lines(listing: Listing) -> Iterator[str]:
    for position, (key, size_bytes) in enumerate(zip(listing.keys, listing.sizes_bytes.tolist(), strict=True)):
        yield json_line({"key": key, "size_bytes": size_bytes, "version": listing.version(position)})


def _text_lines(listing: Listing) -> Iterator[str]:
    for key, size_bytes in zip(listing.keys, listing.sizes_bytes.tolist(), strict=True):
        yield f"{size_bytes:>15}  {shown(key)}\n"
